/**
 * The manifest: what a checkpoint is and what its files must be. It has one rendering only, and that rendering carries its own
 * checksum, so any changed byte of it is seen.
 */
import { createHash } from "node:crypto";
import { messageOf } from "@muster/base";
import { idSchema, shardsMax } from "@muster/protocol";
import { modelIndexFile } from "@muster/tensors";
import { z } from "zod";
import { errors } from "./errors.ts";
import { counterMax, stepMax } from "./names.ts";
import { shardedFiles, shardPattern } from "./shard-names.ts";

const count = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const counter = count.max(counterMax);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** Files that a manifest may list, in the order in which they are written. */
export const fileNames = ["config.json", "model.safetensors", "optimizer.safetensors"] as const;

/** A list of files, each with its digest. */
const filesOf = <D extends z.ZodRawShape>(digest: D) =>
  z
    .array(z.strictObject({ name: z.enum(fileNames), bytes: count, ...digest }))
    .min(2)
    .max(fileNames.length);

/** Name of the manifest's own file. */
export const manifestFile = "manifest.json";

/** Longest manifest that is read. */
export const manifestBytesMax = 1024 * 1024;

/**
 * Where the job's input goes on after the checkpoint. Prompts, samples and shuffles draw from streams that are keyed by seed, step and index, so
 * these numbers are the whole state of the dataset and of all random generators.
 */
export const cursorSchema = z.strictObject({
  seed: count,
  /** Step that is sampled next. */
  nextStep: count.max(stepMax),
  /** Place of its first prompt, counted from the first prompt of the job. */
  nextPrompt: count,
  /** Groups that each step of the job had when it began. */
  groupsPerStep: count,
  /** Steps from which on steps had other groups, where the batch was changed. */
  sizes: z
    .array(z.strictObject({ fromStep: count.min(1), groupsPerStep: count.min(1) }))
    .min(1)
    .max(256)
    .optional(),
  groupSize: count,
  /** The task by its name, or the digest of its rows or of its module. */
  data: z.string().min(1).max(256),
});

/** See {@link cursorSchema}. */
export type Cursor = Readonly<z.infer<typeof cursorSchema>>;

/** Checks {@link FileEntry} of a sharded checkpoint. */
export const shardedFileSchema = z.strictObject({
  name: z.union([z.enum(["config.json", modelIndexFile]), z.string().regex(shardPattern)]),
  bytes: count,
  sha256Tree: sha256,
});

/** What every format says. `files` is in the order in which they are written. */
const common = {
  job: idSchema,
  lineage: count,
  step: count.max(stepMax),
  version: counter,
  term: counter,
  sections: z
    .array(z.strictObject({ name: z.enum(["weights", "optimizer"]), bytes: count, digest: z.string().min(1).max(128) }))
    .min(1)
    .max(2),
  files: filesOf({ sha256Tree: sha256 }),
  ledger: z.strictObject({ admitted: count, trained: count, aborted: count, quarantined: count }),
  groupsWatermark: count,
  engineBuild: z.string().max(256),
  createdAt: z.iso.datetime(),
  /** Absent in checkpoints of programs that did not write it. */
  cursor: cursorSchema.optional(),
};

/** Written until 2026: one SHA-256 through each file. It is read, and not written any more. */
const first = z.strictObject({ format: z.literal(1), ...common, files: filesOf({ sha256 }) });
const second = z.strictObject({ format: z.literal(2), ...common });
/** Written by several actors, a shard each. */
const third = z.strictObject({
  format: z.literal(3),
  ...common,
  shards: count.min(2).max(shardsMax),
  files: z.array(shardedFileSchema).max(2 * shardsMax + 2),
});

const manifestSchema = z.discriminatedUnion("format", [first, second, third]);

const signedSchema = z.discriminatedUnion("format", [
  first.extend({ checksum: sha256 }),
  second.extend({ checksum: sha256 }),
  third.extend({ checksum: sha256 }),
]);

/**
 * What a checkpoint says of itself. `sections[].digest` is the data plane's digest of the section's bytes, recorded, not computed here;
 * `files[].sha256Tree`, or in format 1 `files[].sha256`, is computed here and checked on every read. Counts of `ledger` are trajectories at `version`
 * (semantics 6.6).
 */
export type CheckpointManifest = Readonly<z.infer<typeof manifestSchema>>;

/** What a manifest of today's formats says of a file: its size in bytes, and SHA-256 of the SHA-256 of its pieces of 4 MiB, in hex. */
export interface FileEntry<Name extends string = string> {
  readonly name: Name;
  readonly bytes: number;
  readonly sha256Tree: string;
}

/** Renders a manifest. @throws MUSTER_ERR_CHECKPOINT_MANIFEST_INVALID when a field is out of range. */
export function encodeManifest(manifest: CheckpointManifest): Uint8Array {
  const parsed = manifestSchema.safeParse(manifest);
  if (!parsed.success) refuse(issueOf(parsed.error));
  checkParts(parsed.data);
  return new TextEncoder().encode(render(parsed.data));
}

/** Reads a manifest. @throws MUSTER_ERR_CHECKPOINT_MANIFEST_INVALID when a single byte is not as it was rendered. */
export function decodeManifest(bytes: Uint8Array): CheckpointManifest {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    refuse(`not JSON: ${messageOf(error)}`, error);
  }
  const parsed = signedSchema.safeParse(value);
  if (!parsed.success) refuse(issueOf(parsed.error));
  const { checksum: _, ...manifest } = parsed.data;
  if (render(manifest) !== text) refuse("it does not match its checksum");
  checkParts(manifest);
  return manifest;
}

/** Sha-256 of bytes, in hex. */
export function sha256Of(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The schemas fix the order of the keys, and JSON the form of the values: the rendering is a function of the manifest. */
function render(manifest: CheckpointManifest): string {
  return `${JSON.stringify({ ...manifest, checksum: sha256Of(JSON.stringify(manifest)) }, null, 2)}\n`;
}

/** The relation between sections and files: weights always, the optimizer in both or in neither. */
function checkParts(manifest: CheckpointManifest): void {
  const sections = manifest.sections.map((section) => section.name).join();
  const files = manifest.files.map((file) => file.name).join();
  const of = manifest.format === 3 ? manifest.shards : 1;
  const namesOf = (count: 2 | 3) => (of > 1 ? shardedFiles(of, count === 3) : fileNames.slice(0, count)).join();
  const expected = { weights: namesOf(2), "weights,optimizer": namesOf(3) }[sections];
  if (files !== expected) refuse(`sections "${sections}" do not go with files "${files}"`);
}

function issueOf(error: z.ZodError): string {
  const issue = error.issues[0];
  return `${issue?.path.join(".") || "it"}: ${issue?.message ?? "invalid"}`.slice(0, 200);
}

function refuse(reason: string, cause?: unknown): never {
  throw errors.CheckpointManifestInvalid({ reason }, cause);
}
