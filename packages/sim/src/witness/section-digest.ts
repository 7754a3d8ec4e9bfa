/**
 * The digests of whole sections, as whoever has all of one finds them: where trainers are several processes it is that of the list of their shards. The
 * shards are cut here number by number, without the plans of production.
 */
import type { SectionDigest } from "@muster/check/internal";
import type { JobConfig } from "@muster/protocol";
import { shapeOf } from "../engine/info.ts";
import { trainerCutOf } from "../ranks/cut.ts";

type Tensor = NonNullable<ReturnType<typeof trainerCutOf>>["tensors"][number];

/** Tensors of a shard begin at multiples of this, in numbers of four bytes. */
const alignment = 16;

/** Digest of a section of a job. `digest`: of bytes. */
export function sectionDigestOf(config: JobConfig, digest: (bytes: Uint8Array) => string): SectionDigest {
  const cut = trainerCutOf(config);
  if (!cut) return digest;
  const { tp, tensors } = cut;
  const optimizer = optimizerBytesOf(config);
  return (bytes, name) => {
    const shards = Array.from({ length: tp }, (_, rank) =>
      name === "weights" ? shardOf(bytes, tensors, { rank, ranks: tp }) : pieceOf(bytes, optimizer, rank),
    );
    const list = [name, bytes.length, shards.map((shard) => [shard.length, digest(shard)])];
    return `shards:${digest(new TextEncoder().encode(JSON.stringify(list)))}`;
  };
}

/** Size of the optimizer of each process of a trainer. */
export function optimizerBytesOf(config: JobConfig): readonly number[] {
  const cut = trainerCutOf(config);
  const { count } = shapeOf(config.model);
  if (!cut) return [8 * count + 8];
  const whole = new Uint8Array(4 * count);
  const { tp: ranks, tensors } = cut;
  return Array.from({ length: ranks }, (_, rank) => 2 * shardOf(whole, tensors, { rank, ranks }).length + 8);
}

function pieceOf(bytes: Uint8Array, sizes: readonly number[], rank: number): Uint8Array {
  const from = sizes.slice(0, rank).reduce((sum, size) => sum + size, 0);
  return bytes.subarray(from, from + (sizes[rank] ?? 0));
}

/** What of the weights a rank has: of each tensor the numbers whose coordinate along the dimension that is cut is one of its own. */
function shardOf(
  whole: Uint8Array,
  tensors: readonly Tensor[],
  { rank, ranks }: { readonly rank: number; readonly ranks: number },
): Uint8Array {
  const numbers = new Uint32Array(whole.slice().buffer);
  const own: number[] = [];
  let place = 0;
  for (const { shape, partition } of tensors) {
    while (own.length % alignment !== 0) own.push(0);
    const count = shape.reduce((product, size) => product * size, 1);
    for (let i = 0; i < count; i++, place++)
      if (partition === null || ownerOf(coordinateOf(i, shape, partition), shape[partition] ?? 1, ranks) === rank)
        own.push(numbers[place] ?? 0);
  }
  return new Uint8Array(Uint32Array.from(own).buffer);
}

function coordinateOf(index: number, shape: readonly number[], dimension: number): number {
  const inner = shape.slice(dimension + 1).reduce((product, size) => product * size, 1);
  return Math.floor(index / inner) % (shape[dimension] ?? 1);
}

/** As even as it goes: the first ranks have one more. */
function ownerOf(coordinate: number, size: number, ranks: number): number {
  const [each, more] = [Math.floor(size / ranks), size % ranks];
  const ofLonger = Math.floor(coordinate / (each + 1));
  return ofLonger < more ? ofLonger : more + Math.floor((coordinate - more * (each + 1)) / each);
}
