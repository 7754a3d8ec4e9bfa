/** Names of the files of a checkpoint that several actors wrote, as Hugging Face loaders know them. */
import { modelIndexFile, shardFile } from "@muster/tensors";

/** What `shardFile` of tensors makes. */
export const shardPattern = /^(?:model|optimizer)-\d{5}-of-\d{5}\.safetensors$/;

/** Name of the file in which a writer says that its shard is whole. It is no part of the checkpoint. */
export function noteFile(index: number, of: number): string {
  const [number, count] = [index, of].map((n) => `${n}`.padStart(5, "0"));
  return `shard-${number}-of-${count}.json`;
}

/** All files of a sharded checkpoint but its manifest, in the manifest's order. */
export function shardedFiles(of: number, hasOptimizer: boolean): readonly string[] {
  const all = (kind: "model" | "optimizer"): string[] => shardNumbers(of).map((index) => shardFile(kind, index, of));
  return ["config.json", ...all("model"), modelIndexFile, ...(hasOptimizer ? all("optimizer") : [])];
}

/** Numbers of shards, from 1. */
export function shardNumbers(of: number): readonly number[] {
  return Array.from({ length: of }, (_, i) => i + 1);
}
