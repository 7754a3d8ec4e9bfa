/** A version as several shards, each by itself the work of one writer: which bytes belong to which, and the index of Hugging Face loaders. Pure. */
import { messageOf } from "@muster/base";
import {
  byOffset,
  encodeModelIndex,
  encodeSafetensorsHeader,
  modelIndexFile,
  type PlacedTensor,
  shardFile,
} from "@muster/tensors";
import {
  type ByteSource,
  type CheckpointContent,
  type CheckpointSection,
  contentInvalid,
  headerOf,
  type PlannedFile,
  planOptimizer,
  sectionsOf,
} from "./content.ts";
import { sha256Of } from "./manifest.ts";

/** Lays one shard out as files: its tensors, and its part of the optimizer's bytes. The parts are views of the sections' bytes. */
export function planShard(content: CheckpointContent, index: number, of: number): readonly PlannedFile<string>[] {
  const { weights, optimizer } = sectionsOf(content);
  const own = dealt(content, of)[index - 1] ?? [];
  // no mutant: nothing may begin anywhere
  const from = own[0]?.offsetBytes ?? 0;
  const bytes = own.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const tensors = own.map((tensor) => ({ ...tensor, offsetBytes: tensor.offsetBytes - from }));
  const part = rangeOf(weights, from, from + bytes);
  const files = [{ name: shardFile("model", index, of), parts: [headerOf(content, tensors, part), part.bytes] }];
  if (!optimizer) return files;
  const [start, end] = [index - 1, index].map((i) => Math.floor((optimizer.bytes.length * i) / of)) as [number, number];
  return [...files, planOptimizer(content, shardFile("optimizer", index, of), rangeOf(optimizer, start, end))];
}

/** The index that says which tensor is in which shard. */
export function planIndex(content: CheckpointContent, of: number): PlannedFile<string> {
  const { weights } = sectionsOf(content);
  const entries = dealt(content, of).flatMap((own, i) =>
    own.map(({ name }): [string, string] => [name, shardFile("model", i + 1, of)]),
  );
  return { name: modelIndexFile, parts: [encodeModelIndex(entries, weights.bytes.length)] };
}

/**
 * What decides every byte of every shard, as 16 hexadecimal digits: writers that are told of another lineage, other weights or another number of shards
 * work in another folder. The term is none of it, so another controller goes on with what the one before had begun.
 */
export function setKey(content: CheckpointContent, of: number): string {
  const { job, lineage, step, version } = content;
  const { weights, optimizer } = sectionsOf(content);
  const sections = [weights, ...(optimizer ? [optimizer] : [])].map(({ name, digest, bytes }) => [
    name,
    digest,
    bytes.length,
  ]);
  const tensors = byOffset(content.tensors).map(({ name, dtype, shape, sizeBytes }) => [name, dtype, shape, sizeBytes]);
  return sha256Of(JSON.stringify([job, lineage, step, version, of, sections, tensors])).slice(0, 16);
}

/**
 * Tensors in the order of their bytes, whole, each in the shard in whose equal part of all bytes its middle lies. Two writers with the same table deal
 * alike, and the shards follow each other as the section has them.
 */
function dealt(content: CheckpointContent, of: number): readonly (readonly PlacedTensor[])[] {
  const { weights } = sectionsOf(content);
  const tensors = byOffset(content.tensors);
  try {
    // What does not tile the whole does not tile its shards.
    encodeSafetensorsHeader(tensors, weights.bytes.length);
  } catch (error) {
    throw contentInvalid(content, "tensors of section weights", messageOf(error), error);
  }
  const shards: PlacedTensor[][] = Array.from({ length: of }, () => []);
  for (const tensor of tensors) {
    const middle = tensor.offsetBytes + tensor.sizeBytes / 2;
    const at = Math.min(of - 1, Math.floor((middle * of) / Math.max(1, weights.bytes.length)));
    shards[at]?.push(tensor);
  }
  return shards;
}

function rangeOf(section: CheckpointSection, from: number, to: number): CheckpointSection {
  const { bytes } = section;
  const part: Uint8Array | ByteSource =
    bytes instanceof Uint8Array
      ? bytes.subarray(from, to)
      : { length: to - from, copyTo: (into, at) => bytes.copyTo(into, from + at) };
  return { ...section, bytes: part };
}
