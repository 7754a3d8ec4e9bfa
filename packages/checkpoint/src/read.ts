/**
 * Reading of one checkpoint folder. All files are opened before the first byte of data is read: once that worked, retention may remove
 * the folder, and the reader still sees a whole checkpoint.
 */
import { join } from "node:path";
import { hasCode, MusterError, messageOf } from "@muster/base";
import type { PlacedTensor } from "@muster/tensors";
import type { LoadedSection } from "./content.ts";
import { errors } from "./errors.ts";
import { type CheckpointFs, closeAll, fill, type ReadableFile, systemCode, TooShort } from "./files.ts";
import type { HashContent } from "./hash/gathered.ts";
import { type CheckpointManifest, decodeManifest, manifestBytesMax, manifestFile, sha256Of } from "./manifest.ts";
import { checkName } from "./names.ts";
import { chainDigest, inLanes, type LaneBuffer, type Piece, piecesOf, treeDigest } from "./pieces.ts";
import { type FileTarget, Misfit, SectionReader, sectionOf } from "./section-reader.ts";

/** A complete checkpoint: its manifest, and where it is. */
export type CheckpointInfo = CheckpointManifest & {
  readonly name: string;
  /** Absolute path of the folder. */
  readonly path: string;
  /** Sha-256 of the manifest file, in hex: names the whole content. */
  readonly manifestDigest: string;
  /** Size of all files. */
  readonly bytes: number;
};

/** A checkpoint in memory; every size and sha-256 was right. */
export interface LoadedCheckpoint {
  readonly info: CheckpointInfo;
  readonly modelConfig: Readonly<Record<string, unknown>>;
  /** In order of their bytes. */
  readonly tensors: readonly PlacedTensor[];
  /** As saved. The bytes are the caller's now; they start at a multiple of 8. */
  readonly sections: readonly LoadedSection[];
}

/** Where a checkpoint folder is. `root` has no links, `name` is checked before it is used. */
export interface Folder {
  readonly fs: CheckpointFs;
  readonly root: string;
  readonly name: string;
  /** Who hashes pieces of files; by default the thread for them. */
  readonly hash?: HashContent;
  /** Path of the folder while it is not in its place yet. */
  readonly at?: string;
}

type AnyEntry = CheckpointManifest["files"][number];

/** A file that the manifest lists. */
export interface OpenFile {
  readonly entry: AnyEntry;
  readonly file: ReadableFile;
}

type UseFiles<T> = (info: CheckpointInfo, files: readonly OpenFile[]) => Promise<T>;

/**
 * Checks every size and sha-256 of a checkpoint.
 *
 * @throws MUSTER_ERR_CHECKPOINT_CORRUPT, MUSTER_ERR_CHECKPOINT_MISSING, MUSTER_ERR_CHECKPOINT_READ_FAILED, MUSTER_ERR_CHECKPOINT_NAME_INVALID
 */
export async function verifyFolder(folder: Folder, signal?: AbortSignal): Promise<CheckpointInfo> {
  return withFiles(folder, async (info, files) => {
    for (const { entry, file } of files) await readVerified({ ...folder, name: info.name, entry, file, signal });
    return info;
  });
}

/** Reads the manifest of a checkpoint and looks at the files that it lists, not at what is in them; with the errors of {@link verifyFolder}. */
export async function inspectFolder(folder: Folder): Promise<CheckpointInfo> {
  return withFiles(folder, async (info) => info);
}

/** Reads a checkpoint into memory, checking as {@link verifyFolder} does, and with the same errors. */
export async function loadFolder(folder: Folder, signal?: AbortSignal): Promise<LoadedCheckpoint> {
  return withFiles(folder, async (info, files) => {
    const readers = info.sections.map((section) => ({ ...section, reader: readerOf(section, files) }));
    let config: Uint8Array = new Uint8Array();
    for (const { entry, file } of files) {
      const reader = readers.find(({ name }) => name === sectionOf(entry.name))?.reader;
      const target = reader ? await reader.next(entry.name, file, info.format !== 3) : smallFile(entry.bytes);
      await readVerified({ ...folder, name: info.name, entry, file, signal, target });
      target.done();
      // no mutant: nobody looks at the number of the only piece
      const index = 0;
      if (entry.name === "config.json") config = target.memoryOf({ index, from: 0, bytes: entry.bytes }) ?? config;
    }
    for (const { reader } of readers) reader.end();
    const modelConfig: unknown = JSON.parse(new TextDecoder().decode(config));
    if (typeof modelConfig !== "object" || modelConfig === null) throw new Misfit("config.json is not an object");
    const sections = readers.map(({ name, digest, reader }): LoadedSection => ({ name, digest, bytes: reader.bytes }));
    const tensors = readers.find(({ name }) => name === "weights")?.reader.tensors ?? [];
    return { info, modelConfig: modelConfig as Record<string, unknown>, tensors, sections };
  });
}

/** Nothing is allocated for a section that its files could not hold. */
function readerOf({ name, bytes }: CheckpointManifest["sections"][number], files: readonly OpenFile[]): SectionReader {
  const own = files.filter(({ entry }) => sectionOf(entry.name) === name);
  const most = own.reduce((sum, { entry }) => sum + entry.bytes, 0);
  if (bytes > most) throw new Misfit(`section ${name} has at most ${most} bytes, not ${bytes}`);
  return new SectionReader(name, bytes);
}

function smallFile(sizeBytes: number): FileTarget {
  const bytes = new Uint8Array(sizeBytes);
  return { memoryOf: (piece) => bytes.subarray(piece.from, piece.from + piece.bytes), take() {}, done() {} };
}

/** Opens a folder's files, runs `use`, closes them, and says what failed in the words of checkpoints. */
export async function withFiles<T>(folder: Folder, use: UseFiles<T>): Promise<T> {
  checkName(folder.name);
  const opened: ReadableFile[] = [];
  let info: CheckpointInfo | undefined;
  const open = async (fileName: string): Promise<ReadableFile> => {
    const file = await folder.fs.open(join(pathOf(folder), fileName));
    opened.push(file);
    if (file.stat.kind !== "file" || file.stat.links !== 1) {
      throw corrupt(folder.name, `${fileName} is not a plain file with one name`);
    }
    return file;
  };
  try {
    try {
      await refuseLinkedFolder(folder);
      info = await readInfo(folder, await open(manifestFile));
      return await use(info, await openListed(info, open));
    } finally {
      await closeAll(opened);
    }
  } catch (error) {
    throw ofCopy(toReadError(folder.name, error, await isThere(folder)), info);
  }
}

/** Damage says of which copy it is, where the manifest could be read: another host may have a good one of that name. */
function ofCopy(error: unknown, info: CheckpointInfo | undefined): unknown {
  if (!info || !hasCode(error, "MUSTER_ERR_CHECKPOINT_CORRUPT")) return error;
  const { name, reason } = error.params;
  const { manifestDigest } = info;
  return errors.CheckpointCorrupt({ name: String(name), reason: String(reason), manifestDigest }, error.cause);
}

/** False when the folder has gone as a whole, as retention removes it: a file that lacks in one that stays is damage. */
async function isThere(folder: Folder): Promise<boolean> {
  return (await folder.fs.stat(pathOf(folder)).catch(() => null)) !== null;
}

async function openListed(
  info: CheckpointInfo,
  open: (fileName: string) => Promise<ReadableFile>,
): Promise<readonly OpenFile[]> {
  const files: OpenFile[] = [];
  for (const entry of info.files) {
    const file = await open(entry.name);
    // Before anything is allocated for it.
    if (file.stat.sizeBytes !== entry.bytes) {
      throw corrupt(
        info.name,
        `${entry.name} has ${file.stat.sizeBytes} bytes, not ${entry.bytes} as the manifest says`,
      );
    }
    files.push({ entry, file });
  }
  return files;
}

function pathOf({ root, name, at }: Folder): string {
  return at ?? join(root, name);
}

async function refuseLinkedFolder(folder: Folder): Promise<void> {
  const { fs, name } = folder;
  const stat = await fs.stat(pathOf(folder));
  if (stat === null) throw errors.CheckpointMissing({ name });
  if (stat.kind !== "directory") throw corrupt(name, "it is not a folder; links are not followed");
}

async function readInfo({ root, name }: Folder, file: ReadableFile): Promise<CheckpointInfo> {
  if (file.stat.sizeBytes > manifestBytesMax) throw corrupt(name, `${manifestFile} has ${file.stat.sizeBytes} bytes`);
  const bytes = new Uint8Array(file.stat.sizeBytes);
  await fill(file, bytes, 0);
  const manifest = decodeManifest(bytes);
  const { step, version, term } = checkName(name);
  if (step !== manifest.step || version !== manifest.version || term !== manifest.term) {
    throw corrupt(name, "its manifest is of another checkpoint");
  }
  const sizeBytes = manifest.files.reduce((sum, entry) => sum + entry.bytes, bytes.length);
  return { ...manifest, name, path: join(root, name), manifestDigest: sha256Of(bytes), bytes: sizeBytes };
}

/** Reads one listed file of the right size through, into `target` when given, and compares its digest. */
async function readVerified(
  options: Pick<Folder, "hash"> & {
    readonly name: string;
    readonly entry: AnyEntry;
    readonly file: ReadableFile;
    readonly signal: AbortSignal | undefined;
    readonly target?: FileTarget;
  },
): Promise<void> {
  const { name, entry, file, signal, target, hash } = options;
  const digest = "sha256" in entry ? chainDigest() : treeDigest(hash);
  const check = async (piece: Piece, buffer: LaneBuffer): Promise<void> => {
    signal?.throwIfAborted();
    const content = target?.memoryOf(piece) ?? buffer();
    await digest.add(piece, async () => {
      await fill(file, content, piece.from);
      return content;
    });
    target?.take(piece, content);
  };
  await inLanes(piecesOf(entry.bytes), check, { lanes: digest.lanes });
  if (digest.hex() !== ("sha256" in entry ? entry.sha256 : entry.sha256Tree))
    throw corrupt(name, `${entry.name} does not have the sha-256 of the manifest`);
}

/** Codes that say something of the folder itself; any other failure says something of this moment, and may pass. */
const damageCodes: readonly string[] = ["ELOOP", "ENOTDIR", "EISDIR", "EIO", "ENXIO"];

function toReadError(name: string, error: unknown, isFolderThere: boolean): unknown {
  if (error instanceof TooShort || error instanceof Misfit) return corrupt(name, error.message, error);
  const code = systemCode(error);
  if (code === "ENOENT" && isFolderThere) return corrupt(name, `a file is gone (${messageOf(error)})`, error);
  if (code === "ENOENT") return errors.CheckpointMissing({ name }, error);
  if (damageCodes.includes(code)) return corrupt(name, messageOf(error), error);
  if (error instanceof SyntaxError) return corrupt(name, `config.json is not JSON`, error);
  if (!(error instanceof MusterError)) return errors.CheckpointReadFailed({ name, reason: messageOf(error) }, error);
  const isFormat = /_(SAFETENSORS|MANIFEST)_INVALID$/.test(error.code);
  return isFormat ? corrupt(name, error.message, error) : error;
}

function corrupt(name: string, reason: string, cause?: unknown): MusterError {
  return errors.CheckpointCorrupt({ name, reason }, cause);
}
