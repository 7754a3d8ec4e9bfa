/**
 * Writing of a checkpoint's files, with the disk, the hash and the reading back at work at the same time. Windows of pieces go through three stages: one
 * is copied and written while the one before is flushed and that before it is read back. Another thread hashes the copies meanwhile.
 */
import { join } from "node:path";
import type { PlannedFile } from "./content.ts";
import { type CheckpointFs, closeAll, fill, type ReadableFile, type WritableFile } from "./files.ts";
import type { FileEntry } from "./manifest.ts";
import {
  copyPiece,
  type FileDigest,
  inLanes,
  type LaneBuffer,
  type Piece,
  PieceMemory,
  piecesOf,
  treeDigest,
} from "./pieces.ts";
import { serialQueue } from "./serial.ts";

/** Pieces between two flushes: after the last one, all of them are flushed and read back while nothing else is left to do. */
const windowPieces = 4;

/** Windows that are under way: one in each stage. */
const windowsMax = 3;

/** Pieces that are read back at once. */
const readsMax = 2;

interface Memory {
  /** Of windows under way. */
  readonly copies: PieceMemory;
  readonly read: PieceMemory;
}

/** Memory of the last save for the next one, 56 MiB at most: memory that is new costs as much as a copy into it. */
let spare: Memory | null = null;

interface Options {
  readonly fs: CheckpointFs;
  readonly folder: string;
  /** Stands behind each name on the disk, while the file is not in its place yet. */
  readonly suffix?: string;
  readonly signal: AbortSignal;
}

/**
 * Creates files, one after the other, and makes them durable. Each has been read back as it was given.
 *
 * @returns What the manifest says of them.
 */
export async function writeFiles<Name extends string>(
  plans: readonly PlannedFile<Name>[],
  { fs, folder, suffix = "", signal }: Options,
): Promise<readonly FileEntry<Name>[]> {
  const opened: { close(): Promise<void> }[] = [];
  const memory = spare ?? { copies: new PieceMemory(), read: new PieceMemory() };
  spare = null;
  const stages = new Stages();
  const files: { readonly plan: PlannedFile<Name>; readonly digest: FileDigest }[] = [];
  try {
    for (const plan of plans) {
      const path = join(folder, `${plan.name}${suffix}`);
      const written = await fs.create(path);
      opened.push(written);
      const read = await fs.open(path);
      opened.push(read);
      const digest = treeDigest();
      files.push({ plan, digest });
      await writeOne({ plan, written, read, digest, memory, signal }, stages);
    }
    await stages.ended();
    return files.map(({ plan, digest }) => ({ name: plan.name, bytes: sizeOf(plan), sha256Tree: digest.hex() }));
  } finally {
    // A file is closed when nothing uses it any more.
    await stages.ended().catch(() => {});
    spare = memory;
    await closeAll(opened);
  }
}

const sizeOf = ({ parts }: PlannedFile<string>): number => parts.reduce((sum, part) => sum + part.length, 0);

interface OpenPlan {
  readonly plan: PlannedFile<string>;
  readonly written: WritableFile;
  readonly read: ReadableFile;
  readonly digest: FileDigest;
  readonly memory: Memory;
  readonly signal: AbortSignal;
}

async function writeOne(open: OpenPlan, stages: Stages): Promise<void> {
  const pieces = piecesOf(sizeOf(open.plan));
  for (let at = 0; at === 0 || at < pieces.length; at += windowPieces) {
    const window = pieces.slice(at, at + windowPieces);
    const copies = await writeWindow(open, window, await stages.turn());
    stages.next(
      () => open.written.sync(),
      () => readBack(open, copies),
    );
  }
}

/** A piece in memory of its own, which stays as it is until the piece was read back. */
interface Copy extends Piece {
  readonly content: Uint8Array;
  readonly hashed: Promise<void>;
}

async function writeWindow(
  { plan, written, digest, memory, signal }: OpenPlan,
  window: readonly Piece[],
  turn: number,
): Promise<readonly Copy[]> {
  const copies: Copy[] = [];
  // Two writes to one file at once would only wait for each other, and in the kernel that costs a core.
  const inTurn = serialQueue(windowPieces);
  await inLanes(window, async (piece) => {
    signal.throwIfAborted();
    // no mutant: any places that are not shared will do
    const content = memory.copies.at(turn * windowPieces + (piece.index % windowPieces), piece.bytes);
    await copyPiece(plan.parts, piece, content);
    const hashed = digest.add(piece, content);
    // Whoever reads back hears of a failure; until then it is no unhandled rejection.
    hashed.catch(() => {});
    copies.push({ ...piece, content, hashed });
    await inTurn(() => written.write(content, piece.from));
  });
  return copies;
}

/** Compares pieces with what was hashed and written. */
async function readBack({ plan, read, memory, signal }: OpenPlan, copies: readonly Copy[]): Promise<void> {
  const check = async ({ from, content, hashed }: Copy, buffer: LaneBuffer): Promise<void> => {
    signal.throwIfAborted();
    const found = buffer();
    await fill(read, found, from);
    if (Buffer.compare(found, content) !== 0)
      throw new Error(`${plan.name} was read back with other bytes than were written, from byte ${from} on`);
    await hashed;
  };
  await inLanes(copies, check, { memory: memory.read, lanes: readsMax });
}

/** Flushing and reading back, which go on while the next window is written. After a failure nothing new begins. */
class Stages {
  /** Ends of windows that may be under way, the oldest first. */
  readonly #ends: Promise<void>[] = [];
  // no mutant: any of the places may be the first one
  #begun = 0;
  #flushed: Promise<void> = Promise.resolve();
  #checked: Promise<void> = Promise.resolve();

  /** Waits until one window more may be under way. @returns Which of their places it has, from 0. @throws What failed in a stage. */
  async turn(): Promise<number> {
    if (this.#ends.length === windowsMax) await this.#ends.shift();
    return this.#begun++ % windowsMax;
  }

  /** Flushes a window after those before, then reads it back after those before. */
  next(flush: () => Promise<void>, check: () => Promise<void>): void {
    const flushed = this.#flushed.then(flush);
    const checked = this.#checked.then(() => flushed).then(check);
    // Whoever waits for them hears of a failure; until then it is no unhandled rejection.
    for (const stage of [flushed, checked]) stage.catch(() => {});
    this.#flushed = flushed;
    this.#checked = checked;
    this.#ends.push(checked);
  }

  /** Waits until nothing is under way. @throws What failed in a stage. */
  async ended(): Promise<void> {
    await Promise.allSettled([this.#flushed, this.#checked]);
    await this.#checked;
  }
}
