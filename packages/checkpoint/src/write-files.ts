/**
 * Writing of a checkpoint's files, with the disk, the hash and the reading back at work at the same time. A piece is hashed here while another thread
 * writes it; what is written is flushed window by window while the next window is written, and each piece is read back after its flush.
 */
import { join } from "node:path";
import type { PlannedFile } from "./content.ts";
import { type CheckpointFs, closeAll, fill, type ReadableFile, type WritableFile } from "./files.ts";
import type { FileEntry } from "./manifest.ts";
import { inLanes, type LaneBuffer, type LaneMemory, type Piece, pieceFrom, piecesOf, treeDigest } from "./pieces.ts";
import { serialQueue } from "./serial.ts";

/** Pieces between two flushes: after the last one, all of them are flushed and read back while nothing else is left to do. */
const windowPieces = 8;

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
  options: Options,
): Promise<readonly FileEntry<Name>[]> {
  const opened: { close(): Promise<void> }[] = [];
  const behind = oneBehind();
  const memory = { written: [], read: [] };
  try {
    const entries: FileEntry<Name>[] = [];
    for (const plan of plans) {
      const path = join(options.folder, `${plan.name}${options.suffix ?? ""}`);
      const written = await options.fs.create(path);
      opened.push(written);
      const read = await options.fs.open(path);
      opened.push(read);
      entries.push(await writeOne({ plan, written, read, memory, signal: options.signal }, behind));
    }
    await behind.ended();
    return entries;
  } finally {
    // A file is closed when nothing uses it any more.
    await behind.ended().catch(() => {});
    await closeAll(opened);
  }
}

interface OpenPlan<Name extends string = string> {
  readonly plan: PlannedFile<Name>;
  readonly written: WritableFile;
  readonly read: ReadableFile;
  readonly memory: { readonly written: LaneMemory; readonly read: LaneMemory };
  readonly signal: AbortSignal;
}

async function writeOne<Name extends string>(open: OpenPlan<Name>, behind: Behind): Promise<FileEntry<Name>> {
  const { plan, written, memory, signal } = open;
  const bytes = plan.parts.reduce((sum, part) => sum + part.length, 0);
  const pieces = piecesOf(bytes);
  const digest = treeDigest();
  // Two writes to one file at once would only wait for each other, and in the kernel that costs a core.
  const inTurn = serialQueue(windowPieces);
  for (let at = 0; at === 0 || at < pieces.length; at += windowPieces) {
    const window = pieces.slice(at, at + windowPieces);
    const write = async (piece: Piece, buffer: LaneBuffer): Promise<void> => {
      signal.throwIfAborted();
      const content = await pieceFrom(plan.parts, piece, buffer);
      // The hash takes this thread, so the write is given to another one before.
      await inTurn(() => Promise.all([written.write(content, piece.from), digest.add(piece, content)]));
    };
    await inLanes(window, write, { memory: memory.written });
    await behind.next(async () => {
      await written.sync();
      await inLanes(window, (piece, buffer) => readBack(open, piece, buffer), { memory: memory.read });
    });
  }
  return { name: plan.name, bytes, sha256Tree: digest.hex() };
}

/** Compares a piece with what it was made of. */
async function readBack({ plan, read, signal }: OpenPlan, piece: Piece, buffer: LaneBuffer): Promise<void> {
  signal.throwIfAborted();
  const content = buffer(1);
  const [given] = await Promise.all([pieceFrom(plan.parts, piece, buffer), fill(read, content, piece.from)]);
  if (Buffer.compare(content, given) !== 0)
    throw new Error(`${plan.name} was read back with other bytes than were written, from byte ${piece.from} on`);
}

/** Work that goes on while the caller does the next thing. */
interface Behind {
  /** Waits for the work before, then begins this. @throws What the work before threw. */
  next(work: () => Promise<void>): Promise<void>;
  /** Waits for what was begun last. @throws What it threw. */
  ended(): Promise<void>;
}

function oneBehind(): Behind {
  let last: Promise<void> = Promise.resolve();
  return {
    async next(work) {
      await last;
      last = work();
      // Whoever waits for it hears of it; until then it is no unhandled rejection.
      last.catch(() => {});
    },
    ended: () => last,
  };
}
