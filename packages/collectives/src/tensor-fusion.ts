/** Which tensors cross together: many small ones in one operation instead of one operation each. Pure. */
import { checkWhole } from "./check.ts";
import { errors } from "./errors.ts";
import { type DType, elementBytes } from "./group.ts";

/** Distance to which each tensor of a fusion is padded, so that none shares a cache line with the next. */
const alignmentBytes = 64;

/** How to fuse. */
export interface FusionOptions {
  /** Tensors of one type are fused when together they have at least so many bytes; 1 MiB unless given. */
  readonly thresholdBytes?: number;
  /** Most bytes that cross in one operation. */
  readonly capacityBytes: number;
}

/** A tensor in a fusion. */
export interface FusedTensor {
  /** Its place in the list that was planned. */
  readonly index: number;
  /** Where it begins in the fusion. */
  readonly offsetBytes: number;
  readonly bytes: number;
}

/** Tensors of one type that cross in one operation, in the order in which they were given. */
export interface Fusion {
  readonly dtype: DType;
  /** Elements of the operation, padding included. */
  readonly count: number;
  readonly tensors: readonly FusedTensor[];
}

/**
 * Fuses the tensors of a type if there are several, and their bytes reach the threshold; otherwise each crosses alone. Types are never mixed. A
 * fusion that would not fit into one operation is cut between tensors. Tensors without elements travel along, or not at all when alone.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a tensor that does not fit into one operation, or is no whole number of elements.
 */
export function planFusion(
  tensors: readonly { readonly dtype: DType; readonly bytes: number }[],
  { thresholdBytes = 2 ** 20, capacityBytes }: FusionOptions,
): readonly Fusion[] {
  checkWhole("thresholdBytes", thresholdBytes, { min: 0, max: Number.MAX_SAFE_INTEGER });
  const types = new Map<DType, { readonly index: number; readonly bytes: number }[]>();
  for (const [index, { dtype, bytes }] of tensors.entries()) {
    checkWhole(() => `tensors[${index}].bytes`, bytes, { min: 0, max: capacityBytes });
    if (bytes % elementBytes[dtype] !== 0) {
      const fix = `give whole elements of ${elementBytes[dtype]} bytes`;
      throw errors.NativeOptionInvalid({ field: `tensors[${index}].bytes`, value: bytes, fix });
    }
    const ofType = types.get(dtype) ?? [];
    ofType.push({ index, bytes });
    types.set(dtype, ofType);
  }
  return [...types].flatMap(([dtype, ofType]) => {
    const total = ofType.reduce((sum, { bytes }) => sum + bytes, 0);
    const fuse = ofType.length > 1 && total >= thresholdBytes;
    const groups = fuse ? packed(ofType, capacityBytes) : ofType.filter(({ bytes }) => bytes > 0).map((each) => [each]);
    return groups.map((group) => fusionOf(dtype, group));
  });
}

type Sized = { readonly index: number; readonly bytes: number };

const aligned = (bytes: number): number => Math.ceil(bytes / alignmentBytes) * alignmentBytes;

function packed(tensors: readonly Sized[], capacityBytes: number): Sized[][] {
  const groups: Sized[][] = [];
  let end = Number.POSITIVE_INFINITY;
  for (const each of tensors) {
    const begin = aligned(end);
    if (begin + each.bytes > capacityBytes) groups.push([]);
    end = (begin + each.bytes > capacityBytes ? 0 : begin) + each.bytes;
    groups.at(-1)?.push(each);
  }
  return groups;
}

function fusionOf(dtype: DType, group: readonly Sized[]): Fusion {
  let end = 0;
  const tensors = group.map(({ index, bytes }) => {
    const offsetBytes = aligned(end);
    end = offsetBytes + bytes;
    return { index, offsetBytes, bytes };
  });
  return { dtype, count: end / elementBytes[dtype], tensors };
}
