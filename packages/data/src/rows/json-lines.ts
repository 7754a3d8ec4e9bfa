/** JSON lines: an index of where each line begins, and one read for each row. Blank lines are no rows. */
import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { type Row, type Rows, rowBytesMax, rowsMax } from "./rows.ts";

const chunkBytes = 4 * 2 ** 20;
/** Bytes of one read of rows that are asked for one behind the other. */
const aheadBytes = 2 ** 20;
const newline = 0x0a;

/** Opens a file of JSON lines, reading all of it once. @throws MUSTER_ERR_PROMPTS_UNREADABLE naming the line */
export async function openJsonLines(path: string): Promise<Rows> {
  const file = await open(path, "r");
  try {
    const lines = await indexOf(file, path);
    const read = lineReader(file, lines);
    return {
      count: lines.starts.length,
      digest: lines.digest,
      row: async (index) => parseRow(await read(index), { path, index }),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

interface LineIndex {
  readonly digest: string;
  /** First byte of each row. */
  readonly starts: readonly number[];
  /** The byte behind each row. */
  readonly ends: readonly number[];
}

async function indexOf(file: FileHandle, path: string): Promise<LineIndex> {
  const hash = createHash("sha256");
  const [starts, ends]: [number[], number[]] = [[], []];
  const buffer = Buffer.allocUnsafe(chunkBytes);
  let [line, begin, isBlank] = [1, 0, true];
  const endLine = (end: number): void => {
    if (end - begin > rowBytesMax)
      throw errors.PromptsUnreadable({
        path,
        reason: `line ${line} has ${end - begin} bytes, more than ${rowBytesMax}`,
      });
    if (!isBlank) starts.push(begin) && ends.push(end);
    if (starts.length > rowsMax) throw errors.PromptsUnreadable({ path, reason: `it has more than ${rowsMax} rows` });
    [line, begin, isBlank] = [line + 1, end + 1, true];
  };
  for (let position = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, chunkBytes, position);
    if (bytesRead === 0) {
      endLine(position);
      return { digest: hash.digest("hex"), starts, ends };
    }
    const bytes = buffer.subarray(0, bytesRead);
    hash.update(bytes);
    for (let at = 0; at < bytesRead; ) {
      const found = bytes.indexOf(newline, at);
      const end = found < 0 ? bytesRead : found;
      isBlank &&= isBlankText(bytes.subarray(at, end));
      if (found >= 0) endLine(position + found);
      at = end + 1;
    }
    position += bytesRead;
  }
}

function isBlankText(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

/** Reads lines by number. Those that are asked for one behind the other come from one read of many. */
function lineReader(file: FileHandle, { starts, ends }: LineIndex): (index: number) => Promise<Buffer> {
  let last = -2;
  let block: { readonly from: number; readonly bytes: Buffer } = { from: 0, bytes: Buffer.alloc(0) };
  return async (index) => {
    const [start, end] = [starts[index] ?? 0, ends[index] ?? 0];
    const isNext = index === last + 1;
    last = index;
    const { from, bytes } = block;
    if (start >= from && end <= from + bytes.length) return bytes.subarray(start - from, end - from);
    const found = await readBytes(file, start, isNext ? Math.max(end, start + aheadBytes) : end);
    if (isNext) block = { from: start, bytes: found };
    return found.subarray(0, end - start);
  };
}

/** The bytes of a span; fewer where the file ends before. */
async function readBytes(file: FileHandle, start: number, end: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(end - start);
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, start + done);
    if (bytesRead === 0) return bytes.subarray(0, done);
    done += bytesRead;
  }
  return bytes;
}

function parseRow(line: Buffer, { path, index }: { readonly path: string; readonly index: number }): Row {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(line));
  } catch (error) {
    throw errors.PromptInvalid({ row: index + 1, path, reason: `it is no JSON (${messageOf(error)})` }, error);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Row;
  throw errors.PromptInvalid({ row: index + 1, path, reason: "it is no JSON object of columns" });
}
