/** All rows of a split, over as many files as it has. */
import { createHash } from "node:crypto";
import { errors } from "../errors.ts";
import { filesOfSplit } from "./find-files.ts";
import { openJsonLines } from "./json-lines.ts";
import type { Row, Rows } from "./rows.ts";

/** Rows of one split, and where each came from. */
export interface Split extends Rows {
  /** File and number of a row, from 1, for messages. */
  placeOf(index: number): { readonly path: string; readonly row: number };
}

/** Opens a split. @throws MUSTER_ERR_PROMPTS_UNREADABLE */
export async function openSplit(path: string, split: string): Promise<Split> {
  const parts: { readonly path: string; readonly from: number; readonly rows: Rows }[] = [];
  const close = async (): Promise<void> => void (await Promise.all(parts.map(({ rows }) => rows.close())));
  let count = 0;
  try {
    for (const file of await filesOfSplit(path, split)) {
      const rows = file.endsWith(".jsonl") ? await openJsonLines(file) : await openParquet(file);
      parts.push({ path: file, from: count, rows });
      count += rows.count;
    }
    if (count === 0) throw errors.PromptsUnreadable({ path, reason: "there is no row" });
  } catch (error) {
    await close();
    throw error;
  }
  const digest = createHash("sha256").update(parts.map(({ rows }) => rows.digest).join());
  const partOf = (index: number) => {
    const part = parts.findLast(({ from }) => from <= index);
    if (!part || index >= count)
      throw errors.PromptInvalid({ row: index + 1, path, reason: `there are ${count} rows` });
    return part;
  };
  return {
    count,
    digest: digest.digest("hex"),
    row: async (index): Promise<Row> => {
      const { rows, from } = partOf(index);
      return await rows.row(index - from);
    },
    placeOf: (index) => ({ path: partOf(index).path, row: index - partOf(index).from + 1 }),
    close,
  };
}

/** A library for Parquet is loaded with the first file of that kind. */
async function openParquet(file: string): Promise<Rows> {
  return await (await import("./parquet.ts")).openParquet(file);
}
