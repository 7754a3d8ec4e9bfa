/** Parts of a checkpoint's sections, read where they lie: who wants a shard reads that, and not the whole. */
import { invariant, type StridedRows } from "@muster/base";
import { fill, type ReadableFile } from "./files.ts";
import { pieceBytes } from "./pieces.ts";
import { type CheckpointInfo, type Folder, type OpenFile, withFiles } from "./read.ts";
import { headerEndOf, Misfit, sectionOf } from "./section-reader.ts";

/** What is wanted of a section. */
export interface WantedPart {
  readonly section: "weights" | "optimizer";
  /** In the order of the section, or it is read in smaller portions than it could be. */
  readonly rows: Iterable<StridedRows>;
  readonly into: Uint8Array;
}

/** Says what is wanted of a checkpoint, by what its manifest says; throws when nothing is. */
export type ChooseParts = (info: CheckpointInfo) => readonly WantedPart[];

/** What was read of a checkpoint. */
export interface ReadParts {
  readonly info: CheckpointInfo;
  /** Of all parts. */
  readonly bytes: number;
}

/** Bytes between two rows up to which both are read at once: a call of its own costs more. */
const gapBytesMax = 16 * 1024;

/** Reads under way at once. */
const lanes = 4;

/** Bytes of a section that are read at once, and where each piece of them goes. */
interface Span {
  readonly from: number;
  end: number;
  readonly pieces: { readonly from: number; bytes: number; readonly to: number }[];
}

/** Bytes of a section that lie in one file. */
interface Extent {
  readonly file: ReadableFile;
  /** In the section. */
  readonly from: number;
  readonly end: number;
  /** Where the first of them is in the file. */
  readonly at: number;
}

/**
 * Reads parts of the sections of a checkpoint. Sizes are checked and no digest: these are of whole files. Who reads parts compares the digests of what
 * they make up. Needs memory for four portions of 4 MiB beside the parts.
 *
 * @throws MUSTER_ERR_CHECKPOINT_CORRUPT, MUSTER_ERR_CHECKPOINT_MISSING, MUSTER_ERR_CHECKPOINT_READ_FAILED, MUSTER_ERR_CHECKPOINT_NAME_INVALID; what `choose` throws
 */
export async function readParts(folder: Folder, choose: ChooseParts, signal?: AbortSignal): Promise<ReadParts> {
  return await withFiles(folder, async (info, files) => {
    const parts = choose(info);
    for (const part of parts) await readPart(await extentsOf(part.section, info, files), part, signal);
    return { info, bytes: parts.reduce((sum, { into }) => sum + into.length, 0) };
  });
}

/** Where the bytes of a section lie. @throws Misfit unless its files hold just these. */
async function extentsOf(
  section: WantedPart["section"],
  info: CheckpointInfo,
  files: readonly OpenFile[],
): Promise<readonly Extent[]> {
  const bytes = info.sections.find(({ name }) => name === section)?.bytes ?? 0;
  const extents: Extent[] = [];
  let end = 0;
  for (const { entry, file } of files)
    if (sectionOf(entry.name) === section) {
      const at = await headerEndOf(file);
      extents.push({ file, at, from: end, end: end + file.stat.sizeBytes - at });
      end += file.stat.sizeBytes - at;
    }
  if (end !== bytes) throw new Misfit(`section ${section} has ${end} bytes, not ${bytes}`);
  return extents;
}

/** Reads spans, several at once. After a failure nothing new begins, and what has begun is waited for. */
async function readPart(
  extents: readonly Extent[],
  { section, rows, into }: WantedPart,
  signal?: AbortSignal,
): Promise<void> {
  const size = extents.at(-1)?.end ?? 0;
  const spans = spansOf(rows);
  let hasFailed = false;
  const run = async (): Promise<void> => {
    let memory: Uint8Array | null = null;
    try {
      for (const span of spans) {
        if (hasFailed) return;
        signal?.throwIfAborted();
        if (span.end > size) throw new Misfit(`section ${section} has ${size} bytes, and ${span.end} are wanted`);
        const [first] = span.pieces;
        if (first && span.pieces.length === 1) {
          await readSpan(extents, span, targetOf(into, first));
          continue;
        }
        memory ??= new Uint8Array(pieceBytes);
        await readSpan(extents, span, memory.subarray(0, span.end - span.from));
        for (const piece of span.pieces) {
          const at = piece.from - span.from;
          targetOf(into, piece).set(memory.subarray(at, at + piece.bytes));
        }
      }
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: lanes }, run));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

function targetOf(into: Uint8Array, { to, bytes }: Span["pieces"][number]): Uint8Array {
  invariant(to + bytes <= into.length, "a part has room for its rows");
  return into.subarray(to, to + bytes);
}

async function readSpan(extents: readonly Extent[], { from, end }: Span, into: Uint8Array): Promise<void> {
  for (const extent of extents) {
    const [start, stop] = [Math.max(from, extent.from), Math.min(end, extent.end)];
    // no mutant: of a range without a byte nothing is read
    if (start < stop)
      await fill(extent.file, into.subarray(start - from, stop - from), extent.at + start - extent.from);
  }
}

/** Rows as what is read at once: no more than a portion, and no gaps that are worth a call. Several lanes take from it. */
function spansOf(rows: Iterable<StridedRows>): Iterable<Span> {
  const iterator = joined(rows);
  // A lane that ends must not end the others, as a loop over a generator would.
  return { [Symbol.iterator]: () => ({ next: () => iterator.next() }) };
}

function* joined(rows: Iterable<StridedRows>): Generator<Span, void> {
  let span: Span | null = null;
  for (const piece of portionsOf(rows)) {
    const { from, bytes, to } = piece;
    const isNear: boolean =
      span !== null && from >= span.end && from - span.end <= gapBytesMax && from + bytes - span.from <= pieceBytes;
    if (!span || !isNear) {
      if (span) yield span;
      span = { from, end: from + bytes, pieces: [{ from, bytes, to }] };
      continue;
    }
    // no mutant: pieces that are not joined are copied one by one
    const last = span.pieces.at(-1);
    const goesOn = last && last.from + last.bytes === from && last.to + last.bytes === to;
    if (last && goesOn) last.bytes += bytes;
    else span.pieces.push({ from, bytes, to });
    span.end = from + bytes;
  }
  if (span) yield span;
}

/** Each row, in portions where it is long. */
function* portionsOf(rows: Iterable<StridedRows>): Generator<Span["pieces"][number], void> {
  for (const { sourceOffset, sourceStride, targetOffset, targetStride, bytes, count } of rows)
    for (let row = 0; row < count; row++)
      for (let at = 0; at < bytes; at += pieceBytes)
        yield {
          from: sourceOffset + row * sourceStride + at,
          bytes: Math.min(pieceBytes, bytes - at),
          to: targetOffset + row * targetStride + at,
        };
}
