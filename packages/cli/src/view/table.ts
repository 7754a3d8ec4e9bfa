/** Text in columns. Pure. */
import { cleanLine } from "../report/index.ts";

/** One column: its title, and whether its values end at its right edge, as numbers do. */
export interface Column {
  readonly title: string;
  readonly right?: boolean;
}

const gap = "  ";

/** Lays rows out under titles; every cell is cleaned and cut to one line. @returns Lines without trailing blanks. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): readonly string[] {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map((cell) => cleanLine(cell, 60)))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  const pad = (cell: string, at: number): string =>
    columns[at]?.right ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0);
  return cells.map((row) => row.map(pad).join(gap).trimEnd());
}
