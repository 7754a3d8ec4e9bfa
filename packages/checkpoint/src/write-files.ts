/**
 * Writing of a checkpoint's files, with the disk, the hash and the comparison at work at the same time: each piece is written, read back, compared, and
 * hashed by another thread, while what came before is flushed.
 */
import { join } from "node:path";
import type { PlannedFile } from "./content.ts";
import { type CheckpointFs, closeAll, fill, type ReadableFile, type WritableFile } from "./files.ts";
import { Flusher } from "./flusher.ts";
import type { HashContent } from "./hash/gathered.ts";
import type { FileEntry } from "./manifest.ts";
import {
  type FileDigest,
  inLanes,
  type LaneBuffer,
  type Piece,
  PieceMemory,
  pieceOf,
  piecesOf,
  treeDigest,
} from "./pieces.ts";
import { serialQueue } from "./serial.ts";

/** Pieces that are under way at once, of all files. */
const lanes = 6;

/** Memory of the last save for the next one, 48 MiB at most: memory that is new costs as much as a copy into it. */
let spare: PieceMemory | null = null;

/** How files are written. */
export interface WriteFilesOptions {
  readonly fs: CheckpointFs;
  readonly folder: string;
  /** Stands behind each name on the disk, while the file is not in its place yet. */
  readonly suffix?: string;
  readonly signal: AbortSignal;
  /** By default the thread for pieces. */
  readonly hash?: HashContent | undefined;
}

interface OpenPlan<Name extends string> {
  readonly plan: PlannedFile<Name>;
  readonly written: WritableFile;
  readonly read: ReadableFile;
  readonly digest: FileDigest;
  /** Two writes to one file at once would only wait for each other, and in the kernel that costs a core. */
  readonly inTurn: ReturnType<typeof serialQueue>;
}

/**
 * Creates files and makes them durable. Each has been read back as it was given.
 *
 * @returns What the manifest says of them.
 */
export async function writeFiles<Name extends string>(
  plans: readonly PlannedFile<Name>[],
  { fs, folder, suffix = "", signal, hash }: WriteFilesOptions,
): Promise<readonly FileEntry<Name>[]> {
  const opened: { close(): Promise<void> }[] = [];
  const memory = spare ?? new PieceMemory();
  spare = null;
  const flusher = new Flusher();
  try {
    const files: OpenPlan<Name>[] = [];
    for (const plan of plans) {
      const path = join(folder, `${plan.name}${suffix}`);
      const written = await fs.create(path);
      opened.push(written);
      flusher.add(written);
      const read = await fs.open(path);
      opened.push(read);
      files.push({ plan, written, read, digest: treeDigest(hash), inTurn: serialQueue(lanes) });
    }
    const pieces = files.flatMap((file) => piecesOf(sizeOf(file.plan)).map((piece) => ({ ...piece, file })));
    const write = async ({ file, ...piece }: (typeof pieces)[number], buffer: LaneBuffer): Promise<void> => {
      signal.throwIfAborted();
      await file.digest.add(piece, () => writePiece(file, piece, buffer));
      await flusher.wrote(file.written, piece.bytes);
    };
    await inLanes(pieces, write, { memory, lanes });
    signal.throwIfAborted();
    await flusher.end();
    return files.map(({ plan, digest }) => ({ name: plan.name, bytes: sizeOf(plan), sha256Tree: digest.hex() }));
  } finally {
    // A file is closed when nothing uses it any more.
    await flusher.idle();
    spare = memory;
    await closeAll(opened);
  }
}

const sizeOf = ({ parts }: PlannedFile<string>): number => parts.reduce((sum, part) => sum + part.length, 0);

/** Writes a piece and reads it back. @returns What was read, which is the same. */
async function writePiece<Name extends string>(
  { plan, written, read, inTurn }: OpenPlan<Name>,
  piece: Piece,
  buffer: LaneBuffer,
): Promise<Uint8Array> {
  const content = await pieceOf(plan.parts, piece, () => buffer(1));
  await inTurn(() => written.write(content, piece.from));
  const found = buffer();
  await fill(read, found, piece.from);
  if (Buffer.compare(found, content) !== 0)
    throw new Error(`${plan.name} was read back with other bytes than were written, from byte ${piece.from} on`);
  return found;
}
