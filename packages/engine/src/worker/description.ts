/** What a worker says of itself, once every size and place in it was checked. */
import { constants } from "node:buffer";
import { bytesOf, faultOfSpec, type PlacedTensor } from "@muster/tensors";
import { errors } from "../errors.ts";
import type { EngineDescription, EngineRole } from "../registry/adapter.ts";
import { faultOf, helloSchema, refusalSchema } from "./messages.ts";

/** A worker by its own words. */
export interface WorkerDescription extends Omit<EngineDescription, "tokenizer" | "transports"> {
  readonly build: string;
  readonly roles: readonly EngineRole[];
  readonly weightsBytes: number;
  readonly optimizerBytes: number;
  readonly gradientElements: number;
}

/**
 * Checks a hello. Pure.
 *
 * @throws MUSTER_ERR_WORKER_PROTOCOL naming what is wrong, MUSTER_ERR_WORKER_REFUSES with the worker's own reason
 */
export function describedIn(message: object): WorkerDescription {
  const refusal = refusalSchema.safeParse(message).data;
  if (refusal) throw errors.WorkerRefuses({ reason: refusal.message });
  const { data: hello, error } = helloSchema.safeParse(message);
  if (!hello) throw errors.WorkerProtocol({ reason: `its hello is wrong in ${faultOf(error)}` });
  const { type: _, protocol: __, tensors: said, ...rest } = hello;
  const tensors = said.map((tensor): PlacedTensor => ({ ...tensor, sizeBytes: bytesOf(tensor) }));
  const fault = faultOfTable(tensors);
  if (fault) throw errors.WorkerProtocol({ reason: `its tensor table is wrong: ${fault}` });
  const last = tensors.at(-1)!;
  const weightsBytes = last.offsetBytes + last.sizeBytes;
  const gradientElements = tensors.reduce((sum, { shape }) => sum + shape.reduce((all, size) => all * size, 1), 0);
  const sections = { weights: weightsBytes, optimizer: rest.optimizerBytes, gradient: 4 * gradientElements };
  for (const [name, bytes] of Object.entries(sections))
    if (bytes > constants.MAX_LENGTH)
      throw errors.WorkerProtocol({
        reason: `its ${name} has ${bytes} bytes, and at most ${constants.MAX_LENGTH} can be held in one piece here`,
      });
  return { ...rest, tensors, weightsBytes, gradientElements };
}

/** What is wrong with a table of tensors; `null` when nothing is: each of a size that can be counted, one behind the other, each name once. Pure. */
function faultOfTable(tensors: readonly PlacedTensor[]): string | null {
  const names = new Set<string>();
  let end = 0;
  for (const tensor of tensors) {
    const { name, offsetBytes, sizeBytes } = tensor;
    const fault = faultOfSpec(tensor);
    if (fault) return fault;
    if (names.has(name)) return `tensor ${JSON.stringify(name)} stands there twice`;
    if (offsetBytes !== end)
      return `tensor ${JSON.stringify(name)} starts at byte ${offsetBytes}, and the one before it ends at ${end}`;
    names.add(name);
    end += sizeBytes;
    if (!Number.isSafeInteger(end)) return "its bytes are too many to count";
  }
  return end > 0 ? null : "it has no bytes";
}
