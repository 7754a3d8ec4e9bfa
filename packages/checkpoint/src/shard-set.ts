/**
 * One checkpoint that several writers make, each a shard. They work in one folder, whose name says what it will hold; a shard counts when the note about
 * it is durable. Who seals it adds the rest, and one rename makes the checkpoint visible: it is whole or invisible, whoever dies when.
 */
import { join } from "node:path";
import { z } from "zod";
import { type CheckpointContent, type PlannedFile, planConfig, sectionsOf } from "./content.ts";
import { errors } from "./errors.ts";
import { type CheckpointFs, fill, systemCode } from "./files.ts";
import { encodeManifest, type FileEntry, manifestFile, sha256Of, shardedFileSchema } from "./manifest.ts";
import { attemptsMax, formatName, parseSet, setNames } from "./names.ts";
import type { CheckpointInfo } from "./read.ts";
import { isBefore } from "./retention.ts";
import { noteFile, shardedFiles, shardNumbers } from "./shard-names.ts";
import { planIndex, setKey } from "./sharded.ts";
import {
  claim,
  orGone,
  type Place,
  publish,
  putWhole,
  removeFolder,
  removeTree,
  renameToFree,
  saidOf,
} from "./write.ts";
import { type WriteFilesOptions, writeFiles } from "./write-files.ts";

/** Longest note that is read. */
const noteBytesMax = 4096;

const noteSchema = z.strictObject({ files: z.array(shardedFileSchema).min(1).max(2), checksum: z.string() });

/** What a set is made of. */
export interface SetOptions {
  readonly content: CheckpointContent;
  /** Number of shards, at least 2. */
  readonly of: number;
  readonly signal: AbortSignal;
}

/** A shard as `planShard` lays it out. */
export interface PlannedShard {
  readonly index: number;
  readonly plans: readonly PlannedFile<string>[];
}

/** Folders of a set: where shards are written, those that somebody has taken to seal them, the last one first, and the name for the next one who does. */
async function foldersOf({ fs, root }: Place, { content, of }: Pick<SetOptions, "content" | "of">) {
  const { open, sealing } = setNames(content, setKey(content, of));
  const there = await fs.list(root);
  const attempts = Array.from({ length: attemptsMax }, (_, i) => i + 1).filter((nth) => there.includes(sealing(nth)));
  // Above all that are there: nobody who had one before finds his name again.
  // no mutant: any number above them will do
  const next = sealing((attempts.at(-1) ?? 0) + 1);
  return { open, begun: attempts.map(sealing).reverse(), next };
}

/** True while the set of a version is there, whoever has it. */
export async function hasSet(place: Place, content: CheckpointContent, of: number): Promise<boolean> {
  const { open, begun } = await foldersOf(place, { content, of });
  return begun.length > 0 || (await place.fs.stat(join(place.root, open))) !== null;
}

/**
 * Writes one shard durably, unless it is there. Writers of one shard do not disturb each other: each works under names of its own, and what they
 * rename into place has the same bytes.
 */
export async function writeShard(place: Place, { index, plans }: PlannedShard, options: SetOptions): Promise<void> {
  const { fs, root, hash } = place;
  const { of, signal } = options;
  const { begun, open } = await foldersOf(place, options);
  for (const name of [...begun, open]) if (await readNote(fs, join(root, name), index, of)) return;
  const folder = join(root, open);
  await makeSet(place, folder);
  const note = noteFile(index, of);
  await withOwnNames(fs, folder, note, async (suffix) => {
    const files = await writeFilesIn(fs, folder, plans, { suffix, signal, hash });
    await replaceWhole(fs, folder, { name: note, suffix: `${suffix}.new`, bytes: encodeNote(files) });
  });
}

/**
 * Finds a suffix that no other writer has, and removes what was not renamed. Whoever has the file of this suffix has all names that end in it; what is
 * under one of them is what a loss of power has left.
 */
async function withOwnNames(
  fs: CheckpointFs,
  folder: string,
  name: string,
  work: (suffix: string) => Promise<void>,
): Promise<void> {
  const taken = await claim(`${name}.tmp`, "-", async (own) => (await fs.create(join(folder, own))).close());
  try {
    await work(taken.slice(name.length));
  } finally {
    // What can not be removed now goes with the set.
    await removeFiles(fs, folder, [taken]).catch(() => {});
  }
}

/** Writes files under names of their own, then renames them into their place. */
async function writeFilesIn(
  fs: CheckpointFs,
  folder: string,
  plans: readonly PlannedFile<string>[],
  options: Pick<WriteFilesOptions, "signal" | "hash"> & { readonly suffix: string },
): Promise<readonly FileEntry[]> {
  const { suffix, signal } = options;
  const unfinished = plans.map(({ name }) => `${name}${suffix}`);
  await removeFiles(fs, folder, unfinished);
  try {
    const files = await writeFiles(plans, { ...options, fs, folder });
    signal.throwIfAborted();
    for (const { name } of files) await fs.rename(join(folder, `${name}${suffix}`), join(folder, name));
    await fs.syncDirectory(folder);
    return files;
  } catch (error) {
    // The folder itself stays: others work in it.
    await removeFiles(fs, folder, unfinished).catch(() => {});
    throw error;
  }
}

/** Puts a small file in its place, whatever an earlier try has left. */
async function replaceWhole(fs: CheckpointFs, folder: string, file: Parameters<typeof putWhole>[2]): Promise<void> {
  await removeFiles(fs, folder, [`${file.name}${file.suffix}`]);
  await putWhole(fs, folder, file);
}

async function makeSet({ fs, root }: Place, folder: string): Promise<void> {
  await fs.makeDirectory(folder).catch(async (error: unknown) => {
    const isThere = systemCode(error) === "EEXIST" && (await fs.stat(folder))?.kind === "directory";
    if (!isThere) throw error;
  });
  await fs.syncDirectory(root);
}

/**
 * Makes a checkpoint of a set whose shards are all there.
 *
 * @throws MUSTER_ERR_CHECKPOINT_SHARDS_MISSING when one is not.
 */
export async function sealSet(place: Place, createdAt: Date, options: SetOptions): Promise<CheckpointInfo> {
  const { fs, hash } = place;
  const { content, of, signal } = options;
  const { folder, shards } = await takeSet(place, options);
  const names = shardedFiles(of, sectionsOf(content).optimizer !== undefined);
  const plans = [planConfig(content), planIndex(content, of)];
  const written = await writeFilesIn(fs, folder, plans, { suffix: ".tmp", signal, hash });
  const entries = new Map([...shards, ...written].map((file) => [file.name, file]));
  const files = names.flatMap((name) => entries.get(name) ?? []);
  const bytes = encodeManifest({ format: 3, ...saidOf(content, createdAt), shards: of, files });
  await replaceWhole(fs, folder, { name: manifestFile, suffix: ".tmp", bytes });
  const sealed = await publish(place, folder, { content, signal });
  const kept = new Set<string>([...names, manifestFile]);
  const rest = (await fs.list(sealed.path)).filter((file) => !kept.has(file));
  await removeFiles(fs, sealed.path, rest).catch(() => {});
  return sealed;
}

interface TakenSet {
  readonly folder: string;
  readonly shards: readonly FileEntry[];
}

/**
 * Takes a whole set away from those who write in it, and from a sealer who had it before: each has it under another name, so that what somebody does who was
 * taken for dead leads nowhere.
 */
async function takeSet(place: Place, options: SetOptions): Promise<TakenSet> {
  const { fs, root } = place;
  const { content, of } = options;
  const { begun, open, next } = await foldersOf(place, options);
  let missing = shardNumbers(of);
  for (const name of [...begun, open]) {
    const notes = await Promise.all(shardNumbers(of).map((index) => readNote(fs, join(root, name), index, of)));
    const lacking = shardNumbers(of).filter((index) => !notes[index - 1]);
    if (name === open) missing = lacking;
    if (lacking.length > 0) continue;
    await renameToFree(place, join(root, name), next);
    await fs.syncDirectory(root);
    return { folder: join(root, next), shards: notes.flatMap((files) => files ?? []) };
  }
  const name = formatName({ ...content, attempt: 1 });
  throw errors.CheckpointShardsMissing({ name, of, missing: missing.join(", "), folder: root });
}

/**
 * Removes the sets of an older lineage or an earlier step: what they lack will not be written any more. Each goes as a whole, so that
 * who is about to seal it has all of it or nothing.
 */
export async function removeOldSets(place: Place, newer: Pick<CheckpointContent, "lineage" | "step">): Promise<void> {
  for (const name of await place.fs.list(place.root))
    if (isBefore(parseSet(name) ?? newer, newer)) await orGone(removeFolder(place, name));
}

async function removeFiles(fs: CheckpointFs, folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) await removeTree(fs, join(folder, name));
}

function encodeNote(files: readonly FileEntry[]): Uint8Array {
  const text = JSON.stringify(files);
  return new TextEncoder().encode(`${JSON.stringify({ files, checksum: sha256Of(text) })}\n`);
}

/** What the note about a shard says of its files; `null` when there is none that is whole, or a file is not as it says. */
async function readNote(
  fs: CheckpointFs,
  folder: string,
  index: number,
  of: number,
): Promise<readonly FileEntry[] | null> {
  const path = join(folder, noteFile(index, of));
  const stat = await fs.stat(path);
  if (stat?.kind !== "file" || stat.sizeBytes > noteBytesMax) return null;
  const bytes = new Uint8Array(stat.sizeBytes);
  const file = await fs.open(path);
  try {
    await fill(file, bytes, 0);
  } finally {
    await file.close();
  }
  const files = decodeNote(new TextDecoder().decode(bytes));
  for (const { name, bytes: sizeBytes } of files ?? [])
    if ((await fs.stat(join(folder, name)))?.sizeBytes !== sizeBytes) return null;
  return files;
}

function decodeNote(text: string): readonly FileEntry[] | null {
  try {
    const { files, checksum } = noteSchema.parse(JSON.parse(text));
    return sha256Of(JSON.stringify(files)) === checksum ? files : null;
  } catch {
    // A note that is not whole counts as none: its shard is written again.
    return null;
  }
}
