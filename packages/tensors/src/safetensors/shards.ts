/** A model as several safetensors files and the index that says which tensor is in which, as Hugging Face loaders read it. */
import { errors } from "../errors.ts";
import { byOffset, type PlacedTensor } from "../tensor-spec.ts";
import { encodeSafetensorsHeader } from "./header.ts";

/** Name of the index. */
export const modelIndexFile = "model.safetensors.index.json";

/** Five digits are in the names. */
const shardsMax = 99_999;

/** Name of the file of a shard; shards are counted from 1. Pure. */
export function shardFile(kind: "model" | "optimizer", index: number, of: number): string {
  return `${kind}-${digits(index)}-of-${digits(of)}.safetensors`;
}

/** Writes the index. Pure. @param files - Each tensor's name, and that of its file. @param dataBytes - Of all tensors. */
export function encodeModelIndex(files: readonly (readonly [string, string])[], dataBytes: number): Uint8Array {
  const index = { metadata: { total_size: dataBytes }, weight_map: Object.fromEntries(files) };
  return new TextEncoder().encode(`${JSON.stringify(index, null, 2)}\n`);
}

/**
 * Splits weights into shards of at most `shardBytes` of data, in the order of their bytes; a tensor that is larger is a shard by itself. Pure; the parts
 * are views of `weights`.
 *
 * @param tensors - Tile `weights` without gap or overlap.
 * @returns Parts of each file by its name: the shards and `model.safetensors.index.json`.
 * @throws MUSTER_ERR_SAFETENSORS_INVALID when the tensors do not tile the weights, or there would be more than 99,999 shards.
 */
export function encodeShards(
  tensors: readonly PlacedTensor[],
  weights: Uint8Array,
  shardBytes: number,
): Readonly<Record<string, readonly Uint8Array[]>> {
  const sorted = byOffset(tensors);
  // What does not tile the whole does not tile its shards.
  encodeSafetensorsHeader(sorted, weights.length);
  const shards = shardsOf(sorted, shardBytes);
  if (shards.length > shardsMax) {
    const reason = `${shards.length} shards of ${shardBytes} bytes are over the limit of ${shardsMax}; make shards larger`;
    throw errors.SafetensorsInvalid({ reason });
  }
  const files: Record<string, readonly Uint8Array[]> = {};
  const map: [string, string][] = [];
  for (const [i, shard] of shards.entries()) {
    const name = shardFile("model", i + 1, shards.length);
    const start = shard[0]?.offsetBytes ?? 0;
    const end = start + sizeOf(shard);
    const own = shard.map((tensor) => ({ ...tensor, offsetBytes: tensor.offsetBytes - start }));
    files[name] = [encodeSafetensorsHeader(own, end - start), weights.subarray(start, end)];
    map.push(...shard.map((tensor): [string, string] => [tensor.name, name]));
  }
  files[modelIndexFile] = [encodeModelIndex(map, weights.length)];
  return files;
}

function shardsOf(tensors: readonly PlacedTensor[], shardBytes: number): readonly (readonly PlacedTensor[])[] {
  const shards: PlacedTensor[][] = [];
  let filled = 0;
  for (const tensor of tensors) {
    const isOver = filled > 0 && tensor.sizeBytes > 0 && filled + tensor.sizeBytes > shardBytes;
    if (shards.length === 0 || isOver) {
      shards.push([]);
      filled = 0;
    }
    shards.at(-1)?.push(tensor);
    filled += tensor.sizeBytes;
  }
  return shards;
}

const sizeOf = (shard: readonly PlacedTensor[]): number => shard.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

const digits = (count: number): string => `${count}`.padStart(5, "0");
