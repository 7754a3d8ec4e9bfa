/** A curve in characters: braille dots, axes with round numbers, no colour. Pure. */
import { type CurvePoint, finitePoints, rangeOf, type Scale, scaleOf } from "./scale.ts";
import { cleanLine, figure, meanOf, shorten } from "./text.ts";

/** Size and title of a curve. */
export interface CurveOptions {
  /** Characters in a line, axis included, ≥ 24. */
  readonly width: number;
  /** Lines of the plot itself, ≥ 3; the title and the x axis take three more. */
  readonly height: number;
  readonly label: string;
}

/** Bit of each dot of a braille character, `[row][column]`. */
const dotBits = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80],
] as const;

/**
 * Draws a curve for a terminal. Columns that several points share show their mean; points that are no numbers are left out.
 *
 * @returns Lines joined by `\n`, none wider than `width`.
 */
export function terminalCurve(points: readonly CurvePoint[], options: CurveOptions): string {
  const width = Math.max(24, Math.floor(options.width));
  const height = Math.max(3, Math.floor(options.height));
  const curve = finitePoints(points);
  const label = cleanLine(options.label, width - 20);
  if (curve.length === 0) return `${label}: no points yet`;
  const y = scaleOf(...rangeOf(curve.map((point) => point.y)), Math.max(2, Math.floor(height / 2)));
  const gutter = Math.max(...y.ticks.map((tick) => figure(tick, y.digits).length));
  const columns = width - gutter - 3;
  const rows = drawDots(dotColumns(curve, columns * 2), { columns, rows: height, y });
  const names = tickRows(y, height);
  const lines = rows.map((row, index) => {
    const name = names.get(index);
    return `${(name ?? "").padStart(gutter)} ${name === undefined ? "│" : "┤"} ${row}`.trimEnd();
  });
  return [shorten(titleOf(label, curve), width), ...lines, ...xAxis(curve, columns, gutter)].join("\n");
}

function titleOf(label: string, curve: readonly CurvePoint[]): string {
  const ends = [curve.slice(0, 10), curve.slice(-10)].map((part) => figure(meanOf(part.map((point) => point.y)), 3));
  return `${label}  ${ends.join(" → ")}`;
}

/** Value of the curve at each dot column: means where points crowd, straight lines where they are sparse. */
function dotColumns(curve: readonly CurvePoint[], count: number): readonly number[] {
  const first = curve[0]?.x ?? 0;
  const span = (curve.at(-1)?.x ?? 0) - first || 1;
  const sums = new Map<number, { sum: number; count: number }>();
  for (const { x, y } of curve) {
    const column = Math.round(((x - first) / span) * (count - 1));
    const cell = sums.get(column) ?? { sum: 0, count: 0 };
    sums.set(column, { sum: cell.sum + y, count: cell.count + 1 });
  }
  const known = [...sums].map(([column, cell]) => ({ column, y: cell.sum / cell.count }));
  return known.flatMap((from, index) => {
    const to = known[index + 1];
    const steps = to ? to.column - from.column : 1;
    return Array.from({ length: steps }, (_, step) => from.y + (((to?.y ?? from.y) - from.y) * step) / steps);
  });
}

/** Sets the dots of each column, joined upwards and downwards to the column before, so that the curve has no holes. */
function drawDots(
  values: readonly number[],
  plot: { readonly columns: number; readonly rows: number; readonly y: Scale },
): readonly string[] {
  const cells = Array.from({ length: plot.rows }, () => new Uint8Array(plot.columns));
  const dots = values.map((value) => dotRow(value, plot.y, plot.rows));
  for (const [column, dot] of dots.entries()) {
    const before = dots[column - 1] ?? dot;
    const step = Math.sign(before - dot);
    // Stops one short of the dot before: that one is set already.
    for (let row = dot; row !== before || row === dot; row += step) {
      const cell = cells[row >> 2] as Uint8Array;
      cell[column >> 1] = (cell[column >> 1] ?? 0) | (dotBits[row & 3]?.[column & 1] ?? 0);
      if (step === 0) break;
    }
  }
  return cells.map((row) => [...row].map((bits) => (bits === 0 ? " " : String.fromCharCode(0x2800 + bits))).join(""));
}

function dotRow(value: number, y: Scale, rows: number): number {
  return Math.round(((y.high - value) / (y.high - y.low)) * (rows * 4 - 1));
}

/** Which line each tick belongs to. */
function tickRows(y: Scale, rows: number): ReadonlyMap<number, string> {
  return new Map(y.ticks.map((tick) => [dotRow(tick, y, rows) >> 2, figure(tick, y.digits)]));
}

function xAxis(curve: readonly CurvePoint[], columns: number, gutter: number): readonly string[] {
  const first = curve[0]?.x ?? 0;
  const last = curve.at(-1)?.x ?? 0;
  const digits = [first, last].every(Number.isInteger) ? 0 : 2;
  const [left, middle, right] = [first, (first + last) / 2, last].map((x) => figure(x, digits)) as [
    string,
    string,
    string,
  ];
  const space = columns - left.length - middle.length - right.length;
  const isRoomy = space >= 4 && digits === 0 ? Number.isInteger((first + last) / 2) : space >= 4;
  const before = Math.max(1, Math.floor(columns / 2 - middle.length / 2 - left.length));
  const numbers = isRoomy
    ? `${left}${" ".repeat(before)}${middle}${" ".repeat(Math.max(1, space - before))}${right}`
    : `${left}${" ".repeat(Math.max(1, columns - left.length - right.length))}${right}`;
  return [`${" ".repeat(gutter)} └${"─".repeat(columns + 1)}`, `${" ".repeat(gutter + 3)}${numbers}`];
}
