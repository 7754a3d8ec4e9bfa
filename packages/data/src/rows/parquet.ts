/** Parquet: rows are read by row group, and the groups that were used last are kept. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { messageOf } from "@muster/base";
import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
} from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { errors } from "../errors.ts";
import { type Row, type Rows, rowsMax } from "./rows.ts";

/** Largest row group that is read, uncompressed, and what is kept of several. */
const groupBytesMax = 512 * 2 ** 20;

/** Opens a Parquet file, reading all of it once for its digest. @throws MUSTER_ERR_PROMPTS_UNREADABLE */
export async function openParquet(path: string): Promise<Rows> {
  const digest = await digestOf(path);
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    return new ParquetRows({ path, file, metadata, digest });
  } catch (error) {
    throw errors.PromptsUnreadable({ path, reason: `it is no Parquet file (${messageOf(error)})` }, error);
  }
}

interface Group {
  /** First row. */
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

class ParquetRows implements Rows {
  readonly count: number;
  readonly digest: string;
  readonly #path: string;
  readonly #file: AsyncBuffer;
  readonly #metadata: FileMetaData;
  readonly #groups: readonly Group[];
  /** Row groups that were used last, newest at the end. */
  readonly #kept = new Map<Group, Promise<readonly Row[]>>();

  constructor(opened: {
    readonly path: string;
    readonly file: AsyncBuffer;
    readonly metadata: FileMetaData;
    readonly digest: string;
  }) {
    this.#path = opened.path;
    this.#file = opened.file;
    this.#metadata = opened.metadata;
    this.digest = opened.digest;
    this.#groups = groupsOf(opened.metadata);
    this.count = this.#groups.at(-1)?.to ?? 0;
    const large = this.#groups.find(({ bytes }) => bytes > groupBytesMax);
    if (large) {
      const rows = `${large.from + 1} to ${large.to}`;
      throw new Error(
        `the row group of rows ${rows} has ${large.bytes} bytes, more than ${groupBytesMax}; write smaller ones`,
      );
    }
    if (this.count > rowsMax) throw new Error(`it has ${this.count} rows, more than ${rowsMax}`);
  }

  async row(index: number): Promise<Row> {
    const group = this.#groups.find(({ from, to }) => index >= from && index < to);
    if (!group) throw errors.PromptInvalid({ row: index + 1, path: this.#path, reason: `it has ${this.count} rows` });
    const rows = await this.#read(group);
    return plain(rows[index - group.from] ?? {}) as Row;
  }

  async close(): Promise<void> {
    this.#kept.clear();
  }

  #read(group: Group): Promise<readonly Row[]> {
    const rows = this.#kept.get(group) ?? this.#decode(group);
    this.#kept.delete(group);
    this.#kept.set(group, rows);
    let bytes = [...this.#kept.keys()].reduce((sum, each) => sum + each.bytes, 0);
    for (const oldest of this.#kept.keys()) {
      if (bytes <= groupBytesMax) break;
      bytes -= oldest.bytes;
      this.#kept.delete(oldest);
    }
    return rows;
  }

  async #decode(group: Group): Promise<readonly Row[]> {
    try {
      const { from: rowStart, to: rowEnd } = group;
      const read = { file: this.#file, metadata: this.#metadata, compressors, rowStart, rowEnd };
      return (await parquetReadObjects(read)) as readonly Row[];
    } catch (error) {
      this.#kept.delete(group);
      const reason = `rows ${group.from + 1} to ${group.to} can not be read (${messageOf(error)})`;
      throw errors.PromptsUnreadable({ path: this.#path, reason }, error);
    }
  }
}

function groupsOf({ row_groups }: FileMetaData): readonly Group[] {
  let from = 0;
  return row_groups.map(({ num_rows, total_byte_size }) => {
    const group = { from, to: from + Number(num_rows), bytes: Number(total_byte_size) };
    from = group.to;
    return group;
  });
}

/** Values as JSON knows them: a reward should not meet a `bigint` where the same data as JSON lines has a number. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Date || ArrayBuffer.isView(value)) return value;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const bytes of createReadStream(path, { highWaterMark: 2 ** 20 })) hash.update(bytes as Uint8Array);
  return hash.digest("hex");
}
