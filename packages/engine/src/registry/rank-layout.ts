/** How a model lies over the processes of a replica whose engine has each of them take its own part of a version. */
import type { SectionBytes } from "@muster/base";
import { dtypes, type PlacedTensor, type TensorSpec } from "@muster/tensors";
import type { RankTensor } from "../engine.ts";

/** The layout that an engine wants for its processes: rank = tensor-parallel rank + `tp` · stage. */
export interface RankLayout {
  /** Ranks that share each tensor. */
  readonly tp: number;
  /** Stages that share the layers. */
  readonly pp: number;
  /** Which dimension of a tensor is cut over the `tp` ranks (`null`: each has it whole), and the layer that decides its stage. Pure. */
  cut(tensor: TensorSpec): Pick<RankTensor, "partition" | "layer">;
}

/** A layout with the tensors that it was worked out for. */
export interface RankCut extends Pick<RankLayout, "tp" | "pp"> {
  readonly tensors: readonly RankTensor[];
}

/** The part of one tensor in the memory of a rank: elements `start` … `start + length` of the dimension that is cut; of one that is not, 0 and 1. */
export interface ShardTensor {
  readonly name: string;
  readonly start: number;
  readonly length: number;
  /** Where it lies in that memory. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** How one process of a replica comes to its own part of the weights. */
export interface RankShards {
  /** Size of the part. */
  readonly bytes: number;
  readonly tensors: readonly ShardTensor[];
  /**
   * Brings this rank's part of a version into memory of exactly `bytes` bytes, in one array or in several one behind the other, of which each but the last is
   * a multiple of 256 KiB: from whoever has it, every byte checked against the digests that the
   * controller named. What was there before is lost, also when it fails: give it memory that nothing is computed from yet.
   *
   * @param ticket - Of the update that rank 0 got. It has no secret, and is text of at most 256 KiB.
   * @returns A receipt, for `arrived` of that update.
   * @throws the errors of `pullShards`; MUSTER_ERR_SHARD_TICKET for a text that is none, MUSTER_ERR_SHARD_ROOM for memory of another size.
   */
  pull(ticket: string, into: SectionBytes, signal: AbortSignal): Promise<string>;
}

/** Most of either number of a layout. */
const waysMax = 1024;

/** Works a layout out. Pure. */
export function rankCutOf({ tp, pp, cut }: RankLayout, tensors: readonly PlacedTensor[]): RankCut {
  const placed = tensors.map(({ name, dtype, shape }) => {
    const { partition, layer } = cut({ name, dtype, shape });
    return { name, shape, elementBytes: dtypes[dtype].bytes, partition, layer };
  });
  return { tp, pp, tensors: placed };
}

/** What is wrong with a layout for so many processes, as the end of a sentence; `null` when nothing is. Pure. */
export function faultOfCut({ tp, pp, tensors }: RankCut, size: number): string | null {
  const isCount = (value: number): boolean => Number.isInteger(value) && value >= 1 && value <= waysMax;
  for (const [name, value] of Object.entries({ tp, pp }))
    if (!isCount(value)) return `${name} is ${value}, and must be a whole number from 1 to ${waysMax}`;
  if (tp * pp !== size) return `tp · pp = ${tp} · ${pp} is not the number of processes`;
  let layers = 0;
  for (const { name, shape, partition, layer } of tensors) {
    if (typeof layer === "number") {
      if (!Number.isInteger(layer) || layer < 0) return `tensor ${name} is of layer ${layer}`;
      layers = Math.max(layers, layer + 1);
    } else if (layer !== "first" && layer !== "last") return `tensor ${name} is of layer ${layer}`;
    if (partition === null) continue;
    const length = shape[partition];
    if (length === undefined) return `tensor ${name} of shape [${shape}] is cut along dimension ${partition}`;
    if (length < tp) return `tensor ${name} has ${length} elements along dimension ${partition}, fewer than tp = ${tp}`;
  }
  return layers > 0 && pp > layers ? `pp = ${pp} stages are more than the ${layers} layers` : null;
}
