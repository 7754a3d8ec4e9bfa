/** Rows of bytes at equal distances in one place, and where they go in another. */
export interface StridedRows {
  /** Of the first row, in bytes. */
  readonly sourceOffset: number;
  /** From row to row, in bytes. */
  readonly sourceStride: number;
  readonly targetOffset: number;
  readonly targetStride: number;
  /** Bytes of one row. */
  readonly bytes: number;
  /** Number of rows. */
  readonly count: number;
}
