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

/** Bytes of a target, `[from, from + bytes)`. */
export interface ByteWindow {
  readonly from: number;
  readonly bytes: number;
}

/**
 * What of some rows goes to a window of their target. Rows of one entry do not overlap in the target and go forward there. Pure.
 *
 * @returns In the order given, with targets that count from the start of the window; a row at its edge is cut.
 */
export function* rowsWithin<Rows extends StridedRows>(
  rows: Iterable<Rows>,
  { from, bytes: length }: ByteWindow,
): Generator<Rows, void> {
  const end = from + length;
  for (const row of rows) {
    const { targetOffset, bytes, count } = row;
    const stride = count === 1 ? bytes : row.targetStride;
    let first = Math.max(0, Math.floor((from - targetOffset - bytes) / stride) + 1);
    let last = Math.min(count, Math.ceil((end - targetOffset) / stride)) - 1;
    if (first > last) continue;
    if (targetOffset + first * stride < from) yield cutRow(row, first++, { from, end });
    const isCut = last >= first && targetOffset + last * stride + bytes > end;
    if (isCut) last -= 1;
    if (first <= last) yield wholeRows(row, first, { count: last - first + 1, from });
    if (isCut) yield cutRow(row, last + 1, { from, end });
  }
}

function wholeRows<Rows extends StridedRows>(
  row: Rows,
  first: number,
  { count, from }: { readonly count: number; readonly from: number },
): Rows {
  return {
    ...row,
    sourceOffset: row.sourceOffset + first * row.sourceStride,
    targetOffset: row.targetOffset + first * row.targetStride - from,
    count,
  };
}

function cutRow<Rows extends StridedRows>(
  row: Rows,
  index: number,
  { from, end }: { readonly from: number; readonly end: number },
): Rows {
  const target = row.targetOffset + index * row.targetStride;
  const [begin, stop] = [Math.max(from, target), Math.min(end, target + row.bytes)];
  const bytes = stop - begin;
  return {
    ...row,
    sourceOffset: row.sourceOffset + index * row.sourceStride + (begin - target),
    targetOffset: begin - from,
    sourceStride: bytes,
    targetStride: bytes,
    bytes,
    count: 1,
  };
}
