/** Reads tensors of a conversion by ranges: from where they lie in the source, through their casts. */
import { castFloats, type FloatBytes, isFloatDType } from "../cast/cast.ts";
import { dtypes } from "../dtype.ts";
import { errors } from "../errors.ts";
import { labelOf } from "../tensor-spec.ts";
import type { Conversion, ConvertedTensor } from "./convert-table.ts";
import { cutRuns, type Run } from "./runs.ts";

/** Reads bytes of a tensor of the source: `read` of a model folder, or anything else. */
export type ReadSource = (name: string, target: Uint8Array, fromBytes: number) => Promise<void>;

const pieceElements = 1 << 18;

/**
 * Fills `target` with the bytes of a converted tensor from `fromBytes` on; both in whole elements.
 *
 * @throws MUSTER_ERR_TENSOR_CAST_INVALID for a range that is not there; the errors of `read`.
 */
export async function readConverted(
  read: ReadSource,
  tensor: ConvertedTensor,
  target: Uint8Array,
  fromBytes = 0,
): Promise<void> {
  const size = dtypes[tensor.dtype].bytes;
  const [from, elements] = [fromBytes / size, target.length / size];
  const all = tensor.shape.reduce((product, each) => product * each, 1);
  if (!Number.isInteger(from) || !Number.isInteger(elements) || from < 0 || from + elements > all)
    throw errors.TensorCastInvalid({
      reason: `bytes [${fromBytes}, ${fromBytes + target.length}) are no elements of ${labelOf(tensor.name)}`,
    });
  let at = 0;
  for (const run of cutRuns(tensor.runs, from, elements)) {
    const bytes = target.subarray(at, at + run.elements * size);
    await (tensor.casts.length === 1
      ? read(run.source, bytes, run.start * size)
      : readCast(read, tensor, { run, bytes }));
    at += bytes.length;
  }
}

async function readCast(
  read: ReadSource,
  { casts }: ConvertedTensor,
  { run, bytes }: { readonly run: Run; readonly bytes: Uint8Array },
): Promise<void> {
  const chain = casts.filter(isFloatDType);
  const [first, last] = [chain[0]!, chain.at(-1)!];
  for (let done = 0; done < run.elements; done += pieceElements) {
    const elements = Math.min(pieceElements, run.elements - done);
    const empty = (dtype: typeof first): FloatBytes => ({
      dtype,
      bytes: new Uint8Array(elements * dtypes[dtype].bytes),
    });
    let from = empty(first);
    await read(run.source, from.bytes, (run.start + done) * dtypes[first].bytes);
    for (const dtype of chain.slice(1)) {
      const to = empty(dtype);
      castFloats(from, to);
      from = to;
    }
    bytes.set(from.bytes, done * dtypes[last].bytes);
  }
}

/**
 * Compares what a conversion left out with what it is said to be equal to.
 *
 * @throws MUSTER_ERR_TENSOR_RULE_INVALID naming a tensor that has other bytes.
 */
export async function checkTies(read: ReadSource, { ties }: Conversion): Promise<void> {
  for (const { left, to } of ties) {
    const size = dtypes[left.dtype].bytes;
    const all = left.shape.reduce((product, each) => product * each, size);
    for (let at = 0; at < all; at += pieceElements * size) {
      const pair = [left, to].map((tensor) => ({
        tensor,
        bytes: new Uint8Array(Math.min(pieceElements * size, all - at)),
      }));
      for (const { tensor, bytes } of pair) await readConverted(read, tensor, bytes, at);
      if (Buffer.compare(pair[0]!.bytes, pair[1]!.bytes) !== 0)
        throw errors.TensorRuleInvalid({
          rule: `tie ${left.name}`,
          reason: `${labelOf(left.name)} has other bytes than ${labelOf(to.name)}`,
        });
    }
  }
}
