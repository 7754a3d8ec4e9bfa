/** Names of the files of a checkpoint that several actors wrote, as Hugging Face loaders know them. */

/** Says which tensor is in which shard. */
export const indexFile = "model.safetensors.index.json";

/** What `shardFile` makes. */
export const shardPattern = /^(?:model|optimizer)-\d{5}-of-\d{5}\.safetensors$/;

/** Name of a shard's file; shards are counted from 1. */
export function shardFile(kind: "model" | "optimizer", index: number, of: number): string {
  return `${kind}-${digits(index)}-of-${digits(of)}.safetensors`;
}

/** Name of the file in which a writer says that its shard is whole. It is no part of the checkpoint. */
export function noteFile(index: number, of: number): string {
  return `shard-${digits(index)}-of-${digits(of)}.json`;
}

/** All files of a sharded checkpoint but its manifest, in the manifest's order. */
export function shardedFiles(of: number, hasOptimizer: boolean): readonly string[] {
  const all = (kind: "model" | "optimizer"): string[] =>
    Array.from({ length: of }, (_, i) => shardFile(kind, i + 1, of));
  return ["config.json", ...all("model"), indexFile, ...(hasOptimizer ? all("optimizer") : [])];
}

/** Numbers of shards, from 1. */
export function shardNumbers(of: number): readonly number[] {
  return Array.from({ length: of }, (_, i) => i + 1);
}

const digits = (count: number): string => `${count}`.padStart(5, "0");
