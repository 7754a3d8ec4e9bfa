/** Rows of data by number, wherever they lie. */

/** One row: its columns by name. */
export type Row = Readonly<Record<string, unknown>>;

/** Rows that are read one at a time. */
export interface Rows {
  readonly count: number;
  /** SHA-256 of all bytes of the file, as hex. */
  readonly digest: string;
  /** @throws MUSTER_ERR_PROMPT_INVALID, MUSTER_ERR_PROMPTS_UNREADABLE */
  row(index: number): Promise<Row>;
  close(): Promise<void>;
}

/** Most rows of one file. */
export const rowsMax = 20_000_000;

/** Most bytes of one row. */
export const rowBytesMax = 4 * 2 ** 20;
