/** How a model lies over the processes of a replica whose engine has each of them take its own part of a version. */
import type { SectionBytes } from "@muster/base";
import { dtypes, type PlacedTensor, type TensorSpec } from "@muster/tensors";
import type { RankTensor } from "../engine.ts";

/** The layout that an engine wants for its processes: rank = tensor-parallel rank + `tp` · (FSDP rank + `fsdp` · (stage + `pp` · copy)). */
export interface RankLayout {
  /** Ranks that share each tensor. */
  readonly tp: number;
  /** Ranks that share what one of these has of each tensor (FSDP). Default 1. */
  readonly fsdp?: number;
  /**
   * How they cut it. `rows` (default): dimension 0 in pieces of ⌈rows / fsdp⌉, as `fully_shard` of PyTorch and `torch.chunk` do. `flat`: the elements one behind
   * the other in pieces of ⌈elements / fsdp⌉, as ZeRO 3 of DeepSpeed does. The last ones have less, or nothing, and padding is left out.
   */
  readonly fsdpCut?: "rows" | "flat";
  /** Copies of all of it, whose ranks have equal bytes: a reader takes each from one of them. Default 1. */
  readonly dp?: number;
  /** Stages that share the layers. */
  readonly pp: number;
  /** Which dimension of a tensor is cut over the `tp` ranks (`null`: each has it whole), and the layer that decides its stage. Pure. */
  cut(tensor: TensorSpec): Pick<RankTensor, "partition" | "layer">;
}

/** A layout with the tensors that it was worked out for. */
export interface RankCut extends Omit<RankLayout, "cut"> {
  readonly tensors: readonly RankTensor[];
}

/** The part of one tensor in the memory of a rank: elements `start` … `start + length` of the dimension that is cut; of one that is not, 0 and 1. */
export interface ShardTensor {
  readonly name: string;
  readonly start: number;
  readonly length: number;
  /** Where FSDP cuts rows: those of dimension 0 of the whole tensor that the rank has. */
  readonly rows?: { readonly start: number; readonly length: number };
  /** Where FSDP cuts flat: the elements that the rank has of those that `start` and `length` leave, counted row-major. */
  readonly flat?: { readonly start: number; readonly length: number };
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
export function rankCutOf({ cut, ...sizes }: RankLayout, tensors: readonly PlacedTensor[]): RankCut {
  const placed = tensors.map(({ name, dtype, shape }) => {
    const { partition, layer } = cut({ name, dtype, shape });
    return { name, shape, elementBytes: dtypes[dtype].bytes, partition, layer };
  });
  return { ...sizes, tensors: placed };
}

/** What is wrong with a layout for so many processes, as the end of a sentence; `null` when nothing is. Pure. */
export function faultOfCut(layout: RankCut, size: number): string | null {
  return faultOfSizes(layout, size) ?? faultOfTensors(layout);
}

function faultOfSizes({ tp, pp, fsdp = 1, dp = 1, fsdpCut = "rows" }: RankCut, size: number): string | null {
  const isCount = (value: number): boolean => Number.isInteger(value) && value >= 1 && value <= waysMax;
  for (const [name, value] of Object.entries({ tp, fsdp, pp, dp }))
    if (!isCount(value)) return `${name} is ${value}, and must be a whole number from 1 to ${waysMax}`;
  if (fsdpCut !== "rows" && fsdpCut !== "flat") return `fsdpCut is ${fsdpCut}, and must be rows or flat`;
  if (tp * fsdp * pp * dp === size) return null;
  return `tp · fsdp · pp · dp = ${tp} · ${fsdp} · ${pp} · ${dp} is not the number of processes`;
}

function faultOfTensors({ tp, pp, fsdp = 1, fsdpCut = "rows", tensors }: RankCut): string | null {
  let layers = 0;
  /** Of the last of the ranks that share a tensor by FSDP. */
  let hasLast = fsdp === 1;
  for (const { name, shape, partition, layer } of tensors) {
    if (typeof layer === "number") {
      if (!Number.isInteger(layer) || layer < 0) return `tensor ${name} is of layer ${layer}`;
      layers = Math.max(layers, layer + 1);
    } else if (layer !== "first" && layer !== "last") return `tensor ${name} is of layer ${layer}`;
    if (fsdp > 1 && shape.length === 0) return `tensor ${name} is one number, which fsdp = ${fsdp} can not cut`;
    const share = Math.floor((shape[0] ?? 1) / (partition === 0 ? tp : 1));
    const cut =
      fsdpCut === "flat"
        ? Math.floor(shape.reduce((all, each) => all * each, 1) / (partition === null ? 1 : tp))
        : share;
    hasLast ||= Math.ceil(cut / fsdp) * (fsdp - 1) < cut;
    if (partition === null) continue;
    const length = shape[partition];
    if (length === undefined) return `tensor ${name} of shape [${shape}] is cut along dimension ${partition}`;
    if (length < tp) return `tensor ${name} has ${length} elements along dimension ${partition}, fewer than tp = ${tp}`;
  }
  if (!hasLast) return `fsdp = ${fsdp} leaves nothing of any tensor to the last of its ranks`;
  return layers > 0 && pp > layers ? `pp = ${pp} stages are more than the ${layers} layers` : null;
}
