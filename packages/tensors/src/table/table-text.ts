/**
 * A table of tensors as text: what its digest is taken of, and what crosses the data plane. No message grows with the rows of a table: messages
 * have its size and digest.
 */
import { createHash } from "node:crypto";
import { type DType, dtypes } from "../dtype.ts";
import { labelOf, type PlacedTensor, type TensorSpec } from "../tensor-spec.ts";
import { TableCheck } from "./table-check.ts";

/** Size and digest of a table. */
export interface TableSummary {
  readonly rows: number;
  /** Bytes that its tensors cover. */
  readonly bytes: number;
  /** `sha256:` and 64 hexadecimal digits, over its text. */
  readonly digest: string;
}

/** A table, summarised and as text. */
export interface TableText extends TableSummary {
  /** UTF-8: a line of JSON for each row, `[name, dtype, shape, offset in bytes]`, in the order of the table. Two tables are equal when their text is. */
  readonly text: Uint8Array<ArrayBuffer>;
}

/** Lets others have their turn; awaited between pages. */
type Turn = () => Promise<unknown>;

/** Rows of a page: a page takes about a millisecond. */
const pageRows = 1_000;
const newline = 10;

/** Writes a table. */
export async function writeTable(tensors: readonly PlacedTensor[], turn: Turn): Promise<TableText> {
  const pages: Uint8Array[] = [];
  const hash = createHash("sha256");
  for (let at = 0; at < tensors.length; at += pageRows) {
    const page = Buffer.from(
      tensors
        .slice(at, at + pageRows)
        .map((tensor) => `${lineOf(tensor)}\n`)
        .join(""),
    );
    hash.update(page);
    pages.push(page);
    await turn();
  }
  const last = tensors.at(-1);
  const bytes = last ? last.offsetBytes + last.sizeBytes : 0;
  return {
    ...{ rows: tensors.length, bytes, digest: `sha256:${hash.digest("hex")}` },
    text: new Uint8Array(Buffer.concat(pages)),
  };
}

/**
 * Reads the text of a table that was named by its size and digest. Nothing of it is believed before all of it is checked.
 *
 * @returns The rows; or what is wrong with the text, as the end of a sentence.
 */
export async function readTable(
  text: Uint8Array,
  named: TableSummary,
  turn: Turn,
): Promise<readonly PlacedTensor[] | string> {
  const check = new TableCheck();
  const hash = createHash("sha256");
  let fault: string | null = null;
  for (const page of pagesOf(text)) {
    hash.update(page);
    fault ??= addRows(page, check);
    await turn();
  }
  const digest = `sha256:${hash.digest("hex")}`;
  if (digest !== named.digest) return `its digest is ${digest}, and ${named.digest} was named`;
  if (fault !== null) return fault;
  const table = check.finish();
  if (typeof table === "string") return table;
  if (check.rows !== named.rows) return `it has ${check.rows} rows, and ${named.rows} were named`;
  return check.bytes === named.bytes ? table : `its tensors cover ${check.bytes} bytes, and ${named.bytes} were named`;
}

/** The text of a row, without the end of its line. Pure. */
function lineOf({ name, dtype, shape, offsetBytes }: TensorSpec & { readonly offsetBytes: number }): string {
  return JSON.stringify([name, dtype, shape, offsetBytes]);
}

/** Whole lines of a text, {@link pageRows} at a time; what follows the last line comes by itself. */
function* pagesOf(text: Uint8Array): Generator<Uint8Array> {
  for (let from = 0; from < text.length; ) {
    let to = from;
    for (let rows = 0; rows < pageRows && to < text.length; rows++) {
      const end = text.indexOf(newline, to);
      to = end < 0 ? text.length : end + 1;
    }
    yield text.subarray(from, to);
    from = to;
  }
}

function addRows(page: Uint8Array, check: TableCheck): string | null {
  const lines = new TextDecoder().decode(page).split("\n");
  if (lines.pop() !== "") return `row ${check.rows + lines.length + 1} has no end`;
  for (const line of lines) {
    const row = rowIn(line);
    const fault = typeof row === "string" ? `row ${check.rows + 1} ${row}` : check.add(row);
    if (fault !== null) return fault;
  }
  return null;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** The row of a line; or what is wrong with it. One way to write it, so that equal tables have one digest. */
function rowIn(line: string): (TensorSpec & { readonly offsetBytes: number }) | string {
  const value = jsonIn(line);
  if (!Array.isArray(value) || value.length !== 4) return "is not [name, dtype, shape, offset in bytes]";
  const [name, dtype, shape, offsetBytes] = value as readonly unknown[];
  if (typeof name !== "string") return "has a name that is no text";
  if (!isDType(dtype))
    return `(tensor ${labelOf(name)}) has the dtype ${JSON.stringify(dtype)?.slice(0, 64)}, which is not known`;
  if (!Array.isArray(shape) || !shape.every(isCount))
    return `(tensor ${labelOf(name)}) has a shape that is no list of sizes`;
  if (!isCount(offsetBytes)) return `(tensor ${labelOf(name)}) has an offset that is no number of bytes`;
  const row = { name, dtype, shape, offsetBytes };
  return lineOf(row) === line ? row : `(tensor ${labelOf(name)}) is not written as tables are`;
}

function jsonIn(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

function isDType(value: unknown): value is DType {
  return typeof value === "string" && Object.hasOwn(dtypes, value);
}
