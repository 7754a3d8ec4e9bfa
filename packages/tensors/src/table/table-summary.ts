/** What is said of a table of tensors in a message: how large it is, and its digest. No message grows with the rows of a table. */
import { createHash } from "node:crypto";
import type { PlacedTensor } from "../tensor-spec.ts";

/** Size and digest of a table. */
export interface TableSummary {
  readonly rows: number;
  /** Bytes that its tensors cover. */
  readonly bytes: number;
  /** `sha256:` and 64 hexadecimal digits, over the lines of {@link tablePages}. */
  readonly digest: string;
}

/** Rows of a page: a page takes about a millisecond. */
const pageRows = 1_000;

/**
 * A table as text, page by page: a line of JSON for each row, `[name, dtype, shape, offset in bytes]`, in the order of the table. Two tables are equal
 * when their text is. Pure.
 */
function* tablePages(tensors: readonly PlacedTensor[]): Generator<string> {
  for (let at = 0; at < tensors.length; at += pageRows)
    yield tensors
      .slice(at, at + pageRows)
      .map(({ name, dtype, shape, offsetBytes }) => `${JSON.stringify([name, dtype, shape, offsetBytes])}\n`)
      .join("");
}

/**
 * Summarises a table.
 *
 * @param turn - Awaited between pages, so that others get their turn.
 */
export async function summaryOfTable(
  tensors: readonly PlacedTensor[],
  turn: () => Promise<unknown>,
): Promise<TableSummary> {
  const hash = createHash("sha256");
  for (const page of tablePages(tensors)) {
    hash.update(page);
    await turn();
  }
  const last = tensors.at(-1);
  const bytes = last ? last.offsetBytes + last.sizeBytes : 0;
  return { rows: tensors.length, bytes, digest: `sha256:${hash.digest("hex")}` };
}
