/** What a checkpoint holds, and how that is laid out as files that Hugging Face loaders can read. */
import { messageOf } from "@muster/base";
import type { Ledger } from "@muster/protocol";
import { byOffset, encodeSafetensorsHeader, type PlacedTensor } from "@muster/tensors";
import { errors } from "./errors.ts";
import type { CheckpointManifest, Cursor, fileNames } from "./manifest.ts";
import { counterMax, stepMax } from "./names.ts";

/** One contiguous part of a weight version. */
export interface CheckpointSection {
  readonly name: "weights" | "optimizer";
  /** The data plane's digest of `bytes`; recorded as it is, never computed here. */
  readonly digest: string;
  /** Little endian. Belongs to the caller, who leaves it unchanged until the save has ended. */
  readonly bytes: Uint8Array | ByteSource;
}

/** A section that was read back, whole. */
export interface LoadedSection extends CheckpointSection {
  readonly bytes: Uint8Array;
}

/** Bytes that are no buffer of JavaScript: they are read piece by piece, and may be more than a buffer can hold. */
export interface ByteSource {
  readonly length: number;
  /** Fills `into` with the bytes from `from` on. */
  copyTo(into: Uint8Array, from: number): Promise<void>;
}

/** Everything that is saved of one weight version. */
export interface CheckpointContent {
  readonly job: string;
  readonly lineage: number;
  readonly step: number;
  readonly version: number;
  readonly term: number;
  /** `weights`, and `optimizer` when there is one. */
  readonly sections: readonly CheckpointSection[];
  /** Tiles the `weights` section without gap or overlap; any order. */
  readonly tensors: readonly PlacedTensor[];
  /** Content of `config.json`, plain JSON. */
  readonly modelConfig: object;
  /** Counts at this version, without the pending ones: those are generated again. */
  readonly ledger: Omit<Ledger, "pending">;
  /** Messages of the groups stream below this sequence are covered by the checkpoint. */
  readonly groupsWatermark: number;
  readonly engineBuild: string;
  readonly cursor?: Cursor;
}

/** One file to write: its parts follow each other. */
export interface PlannedFile<Name extends string = (typeof fileNames)[number]> {
  readonly name: Name;
  readonly parts: readonly (Uint8Array | ByteSource)[];
}

/** Name of the one tensor in `optimizer.safetensors`. */
export const optimizerTensor = "optimizer";

/**
 * Lays a content out as files. Pure; the parts are views of the sections' bytes.
 *
 * @throws MUSTER_ERR_CHECKPOINT_CONTENT_INVALID naming the field that cannot be written.
 */
export function planFiles(content: CheckpointContent): readonly PlannedFile[] {
  const { weights, optimizer } = sectionsOf(content);
  const files: PlannedFile[] = [
    planConfig(content),
    { name: "model.safetensors", parts: [headerOf(content, byOffset(content.tensors), weights), weights.bytes] },
  ];
  return optimizer ? [...files, planOptimizer(content, "optimizer.safetensors", optimizer)] : files;
}

/** Lays the optimizer's section, or a part of it, out as a file. */
export function planOptimizer<Name extends string>(
  content: CheckpointContent,
  name: Name,
  section: CheckpointSection,
): PlannedFile<Name> {
  const sizeBytes = section.bytes.length;
  const tensor: PlacedTensor = { name: optimizerTensor, dtype: "u8", shape: [sizeBytes], offsetBytes: 0, sizeBytes };
  return { name, parts: [headerOf(content, [tensor], section), section.bytes] };
}

/** Lays the model's configuration out as a file. */
export function planConfig(content: CheckpointContent): PlannedFile<"config.json"> {
  return { name: "config.json", parts: [configBytes(content)] };
}

/** The sections by name. @throws MUSTER_ERR_CHECKPOINT_CONTENT_INVALID when there are others, or no weights. */
export function sectionsOf(content: CheckpointContent): {
  readonly weights: CheckpointSection;
  readonly optimizer?: CheckpointSection | undefined;
} {
  const [weights, optimizer, ...rest] = orderedSections(content);
  if (weights?.name !== "weights" || optimizer?.name === "weights" || rest.length > 0) {
    throw contentInvalid(content, "sections", "must be one of weights and at most one of optimizer");
  }
  return { weights, optimizer };
}

/** Sections in the order of the manifest: weights first. */
export function orderedSections(content: CheckpointContent): readonly CheckpointSection[] {
  return [...content.sections].sort((a, b) => Number(a.name === "optimizer") - Number(b.name === "optimizer"));
}

/** True when a checkpoint holds exactly this version, byte for byte as far as the digests tell, written in the same term. */
export function isSameVersion(manifest: CheckpointManifest, content: CheckpointContent): boolean {
  return manifest.term === content.term && isSameState(manifest, content);
}

/** True when a checkpoint holds exactly this version, whichever term wrote it. */
export function isSameState(manifest: CheckpointManifest, content: CheckpointContent): boolean {
  const sections = orderedSections(content).map(({ name, bytes, digest }) => ({ name, bytes: bytes.length, digest }));
  return (
    (["job", "lineage", "step", "version"] as const).every((key) => manifest[key] === content[key]) &&
    JSON.stringify(manifest.sections) === JSON.stringify(sections)
  );
}

/** Makes the error for a field of a content. */
export function contentInvalid(content: CheckpointContent, field: string, reason: string, cause?: unknown): Error {
  return errors.CheckpointContentInvalid({ step: content.step, field, reason }, cause);
}

/** The header of a file that holds a section with these tensors. @throws MUSTER_ERR_CHECKPOINT_CONTENT_INVALID when they do not tile it. */
export function headerOf(
  content: CheckpointContent,
  tensors: readonly PlacedTensor[],
  section: CheckpointSection,
): Uint8Array {
  try {
    return encodeSafetensorsHeader(tensors, section.bytes.length);
  } catch (error) {
    throw contentInvalid(content, `tensors of section ${section.name}`, messageOf(error), error);
  }
}

function configBytes(content: CheckpointContent): Uint8Array {
  const text = JSON.stringify(content.modelConfig, null, 2);
  if (!text?.startsWith("{") || text.length > 1024 * 1024) {
    throw contentInvalid(content, "modelConfig", "must be a plain object of at most 1 MiB as JSON");
  }
  return new TextEncoder().encode(`${text}\n`);
}

/** Checks that a name can hold the numbers of a version. @throws MUSTER_ERR_CHECKPOINT_CONTENT_INVALID */
export function checkNumbers(content: CheckpointContent): void {
  const limits = { lineage: Number.MAX_SAFE_INTEGER, step: stepMax, version: counterMax, term: counterMax } as const;
  for (const [field, limit] of Object.entries(limits)) {
    const value = content[field as keyof typeof limits];
    if (!Number.isSafeInteger(value) || value < 0 || value > limit) {
      throw contentInvalid(content, field, `is ${value}; it must be a whole number from 0 to ${limit}`);
    }
  }
}
