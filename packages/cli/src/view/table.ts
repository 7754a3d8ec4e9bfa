/** Text in columns. Pure. */
import { cleanLine } from "../report/text.ts";

/** One column: its title, and whether its values end at its right edge, as numbers do. */
export interface Column {
  readonly title: string;
  readonly right?: boolean;
  /** Where there is no room for all columns, those with the highest number go first; without one it stays. */
  readonly spare?: number;
}

const gap = "  ";

/** Lays rows out under titles, within `width` where columns can be spared; every cell is cleaned and cut to one line. @returns Lines without trailing blanks. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width = Number.POSITIVE_INFINITY,
): readonly string[] {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map((cell) => cleanLine(cell, 60)))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  const shown = columnsFor(columns, widths, width);
  const pad = (cell: string, at: number): string =>
    columns[at]?.right ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0);
  return cells.map((row) =>
    shown
      .map((at) => pad(row[at] ?? "", at))
      .join(gap)
      .trimEnd(),
  );
}

/** Places of the columns for which there is room. */
function columnsFor(columns: readonly Column[], widths: readonly number[], width: number): readonly number[] {
  let shown = columns.map((_, at) => at);
  const sizeOf = (all: readonly number[]): number =>
    all.reduce((sum, at) => sum + (widths[at] ?? 0) + gap.length, -gap.length);
  const spares = shown.filter((at) => columns[at]?.spare !== undefined);
  spares.sort((a, b) => (columns[b]?.spare ?? 0) - (columns[a]?.spare ?? 0));
  for (const spare of spares) if (sizeOf(shown) > width) shown = shown.filter((at) => at !== spare);
  return shown;
}
