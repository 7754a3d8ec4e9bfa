/**
 * Writing so that a crash at any moment leaves the old state or the new one. Everything is made under a temporary name, flushed, read
 * back, and only then renamed into place; that rename is the one moment at which a checkpoint comes to be. Nothing is ever removed
 * before its replacement is durable.
 */
import { join } from "node:path";
import { type CheckpointContent, orderedSections, planFiles } from "./content.ts";
import { errors } from "./errors.ts";
import { type CheckpointFs, systemCode } from "./files.ts";
import type { HashContent } from "./hash/gathered.ts";
import { type CheckpointManifest, encodeManifest, type FileEntry, type fileNames, manifestFile } from "./manifest.ts";
import { attemptsMax, formatName, latestFile } from "./names.ts";
import { type CheckpointInfo, inspectFolder } from "./read.ts";
import { writeFiles } from "./write-files.ts";

/** The disk, the root without links, and who hashes pieces of files: by default the thread for them. */
export interface Place {
  readonly fs: CheckpointFs;
  readonly root: string;
  readonly hash?: HashContent;
}

/** What a save is made of. */
export interface WriteOptions {
  readonly content: CheckpointContent;
  readonly createdAt: Date;
  readonly signal: AbortSignal;
}

/** Codes of a name that is already taken, by a file or by a folder. */
const takenCodes: readonly string[] = ["EEXIST", "ENOTEMPTY", "ENOTDIR"];

/**
 * Writes a content as a new folder: files → read back → flush → manifest → flush → read back → rename → flush of the root.
 *
 * @param temporary - Path of an empty folder in the root, which becomes the checkpoint.
 * @returns What was written, durable and verified.
 */
export async function writeFolder(place: Place, temporary: string, options: WriteOptions): Promise<CheckpointInfo> {
  const { fs, hash } = place;
  const { content, createdAt, signal } = options;
  const files = await writeFiles(planFiles(content), { fs, folder: temporary, signal, hash });
  const bytes = encodeManifest(manifestOf(content, files, createdAt));
  await putWhole(fs, temporary, { name: manifestFile, suffix: ".tmp", bytes });
  return publish(place, temporary, { content, signal });
}

/** Gives a folder whose files are all durable its name, so that it counts. @returns What is in it, as its manifest says. */
export async function publish(
  place: Place,
  folder: string,
  { content, signal }: Pick<WriteOptions, "content" | "signal">,
): Promise<CheckpointInfo> {
  const { fs, root } = place;
  const plainName = formatName({ ...content, attempt: 1 });
  const verified = await inspectFolder({ fs, root, name: plainName, at: folder });
  signal.throwIfAborted();
  const name = await claim(plainName, "-a", (candidate) => renameToFree(place, folder, candidate));
  await fs.syncDirectory(root);
  return { ...verified, name, path: join(root, name) };
}

/** Makes a fresh temporary folder for a checkpoint. @returns Its name. */
export function makeTemporary({ fs, root }: Place, content: CheckpointContent): Promise<string> {
  const base = `.tmp-${formatName({ ...content, attempt: 1 })}`;
  return claim(base, "-", (candidate) => fs.makeDirectory(join(root, candidate)));
}

/** Lets `latest` name a checkpoint, atomically. Does nothing but a flush when it already does. */
export async function pointLatest({ fs, root }: Place, name: string): Promise<void> {
  if ((await readLatest({ fs, root })) !== name) {
    const bytes = new TextEncoder().encode(`${name}\n`);
    const temporary = await claim(`.tmp-${latestFile}`, "-", (candidate) =>
      writeWhole(fs, join(root, candidate), bytes),
    );
    await fs.rename(join(root, temporary), join(root, latestFile));
  }
  await fs.syncDirectory(root);
}

/** Takes a checkpoint, or a folder in which one is made, out of sight in one step, then removes its files. */
export async function removeFolder({ fs, root }: Place, name: string): Promise<void> {
  const trash = await claim(`.trash-${name.replace(/^\./, "")}`, "-", (candidate) =>
    renameToFree({ fs, root }, join(root, name), candidate),
  );
  await fs.syncDirectory(root);
  await removeTree(fs, join(root, trash));
}

/** Waits for a removal; what somebody else has taken away meanwhile is gone, too. */
export async function orGone(removal: Promise<void>): Promise<void> {
  await removal.catch((error: unknown) => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
}

/** Removes a path with all below it; links are removed, never followed. */
export async function removeTree(fs: CheckpointFs, path: string): Promise<void> {
  const stat = await fs.stat(path);
  if (stat?.kind !== "directory") return stat ? fs.removeFile(path) : undefined;
  for (const name of await fs.list(path)) await removeTree(fs, join(path, name));
  await fs.removeDirectory(path);
}

async function readLatest({ fs, root }: Place): Promise<string | null> {
  const path = join(root, latestFile);
  if ((await fs.stat(path))?.kind !== "file") return null;
  const file = await fs.open(path);
  try {
    // no mutant: longer than any name
    const bytes = new Uint8Array(128);
    return new TextDecoder().decode(bytes.subarray(0, await file.read(bytes, 0))).trimEnd();
  } finally {
    await file.close();
  }
}

/** Puts a small file in its place, whole and durable. Nothing has the name with the suffix. */
export async function putWhole(
  fs: CheckpointFs,
  folder: string,
  { name, suffix, bytes }: { readonly name: string; readonly suffix: string; readonly bytes: Uint8Array },
): Promise<void> {
  const temporary = join(folder, `${name}${suffix}`);
  await writeWhole(fs, temporary, bytes);
  await fs.rename(temporary, join(folder, name));
  await fs.syncDirectory(folder);
}

/** Creates a small file and flushes it. A file whose flush failed is never used. */
async function writeWhole(fs: CheckpointFs, path: string, bytes: Uint8Array): Promise<void> {
  const file = await fs.create(path);
  try {
    await file.write(bytes, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Renames to a name that nothing has, be it an empty folder or a link that a bare rename would replace. */
export async function renameToFree({ fs, root }: Place, from: string, name: string): Promise<void> {
  if ((await fs.stat(join(root, name))) !== null)
    throw Object.assign(new Error(`${name} is taken`), { code: "EEXIST" });
  await fs.rename(from, join(root, name));
}

/** Takes the first free name of `base`, `base-a2`, `base-a3` …: leftovers keep theirs until they are swept. */
export async function claim(base: string, separator: string, take: (name: string) => Promise<void>): Promise<string> {
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    const name = attempt === 1 ? base : `${base}${separator}${attempt}`;
    try {
      await take(name);
      return name;
    } catch (error) {
      if (!takenCodes.includes(systemCode(error))) throw error;
    }
  }
  throw errors.CheckpointNamesTaken({ base, limit: attemptsMax });
}

function manifestOf(
  content: CheckpointContent,
  files: readonly FileEntry<(typeof fileNames)[number]>[],
  createdAt: Date,
): CheckpointManifest {
  return { format: 2, ...saidOf(content, createdAt), files: [...files] };
}

/** What manifests of all formats say of a content. */
export function saidOf(content: CheckpointContent, createdAt: Date): Omit<CheckpointManifest, "format" | "files"> {
  const { job, lineage, step, version, term, ledger, groupsWatermark, engineBuild, cursor } = content;
  const sections = orderedSections(content).map(({ name, bytes, digest }) => ({ name, bytes: bytes.length, digest }));
  const { admitted, trained, aborted, quarantined } = ledger;
  return {
    ...{ job, lineage, step, version, term, sections },
    ledger: { admitted, trained, aborted, quarantined },
    ...{ groupsWatermark, engineBuild, createdAt: createdAt.toISOString() },
    ...(cursor ? { cursor } : {}),
  };
}
