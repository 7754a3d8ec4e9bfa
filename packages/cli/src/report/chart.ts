/** Line, area and point charts as inline SVG. Colours are classes, so that the page's light and dark themes apply. Pure. */
import { html, type Markup } from "./markup.ts";
import { type CurvePoint, finitePoints, rangeOf, type Scale, scaleOf, thinned } from "./scale.ts";
import { compact, figure } from "./text.ts";

/** One thing drawn on a chart. Classes are those of the page's style: `c1` to `c4`, `faint`. */
export interface Series {
  readonly name: string;
  readonly kind: "line" | "area" | "points";
  readonly color: "c1" | "c2" | "c3" | "c4" | "faint";
  readonly points: readonly CurvePoint[];
}

/** What a chart shows. */
export interface ChartOptions {
  readonly title: string;
  /** One sentence for people who cannot see the chart. */
  readonly description: string;
  readonly width: number;
  readonly height: number;
  /** Later series are drawn over earlier ones; areas are drawn from zero. */
  readonly series: readonly Series[];
  /** Range that the axis covers at least, e.g. `[0, 1]` for shares. */
  readonly include?: readonly [number, number];
  readonly xLabel: string;
  /** Vertical marks, e.g. incidents. */
  readonly marks?: readonly { readonly x: number; readonly label: string }[];
}

interface Plot {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
  readonly xScale: { readonly low: number; readonly high: number; readonly ticks: readonly number[] };
  readonly yScale: Scale;
  readonly right: number;
  readonly bottom: number;
}

const margin = { left: 52, right: 14, top: 20, bottom: 30 };
const pointsMax = 600;
const marksMax = 200;
/** Width of a place in the chart that can be pointed at; a page has many charts. */
const placeWidth = 9;

/** Draws a chart; a sentence instead when there is nothing to draw. */
export function chart(options: ChartOptions): Markup {
  const series = options.series.map((one) => ({ ...one, points: thinned(finitePoints(one.points), pointsMax) }));
  const all = series.flatMap((one) => one.points);
  if (all.length === 0) return html`<p class="none">No data.</p>`;
  const plot = plotOf(all, options);
  const { width, height, title, description, xLabel, marks = [] } = options;
  return html`<svg viewBox="0 0 ${width} ${height}" role="img"><title>${title}</title><desc>${description}</desc>
${gridOf(plot, xLabel)}${marks.slice(0, marksMax).map((mark) => markOf(plot, mark))}${series.map((one) => seriesOf(plot, one))}${placesOf(plot, series, xLabel)}</svg>`;
}

/**
 * What is read off where somebody points: without a script, so each place has its line and its words, and they show while it is pointed at. Their
 * number does not grow with the curve.
 */
function placesOf(plot: Plot, series: readonly Series[], xLabel: string): Markup {
  const longest = series.reduce(
    (most, one) => (one.points.length > most.length ? one.points : most),
    series[0]?.points ?? [],
  );
  const count = Math.max(1, Math.floor((plot.right - margin.left) / placeWidth));
  const places = thinned(longest, count);
  const read = series.map(({ name, points }) => ({
    name,
    points: points.length > count ? thinned(points, count) : points,
  }));
  const edgeOf = (i: number): number => {
    const [before, after] = [places[i - 1], places[i]];
    if (!before) return margin.left;
    return after ? (plot.x(before.x) + plot.x(after.x)) / 2 : plot.right;
  };
  const marks = places.map(({ x }, i) => {
    const [from, to, at] = [edgeOf(i), edgeOf(i + 1), px(plot.x(x))];
    const values = read.flatMap(({ name, points }) => {
      const nearest = nearestTo(points, x);
      const isHere = nearest && plot.x(nearest.x) >= from - 0.01 && plot.x(nearest.x) <= to + 0.01;
      return isHere ? `${name} ${compact(nearest.y)}` : [];
    });
    const words = `${xLabel} ${figure(Math.round(x))}: ${values.join(", ")}`;
    return html`<g class="at"><rect class="hit" x="${px(from)}" y="0" width="${px(Math.max(1, to - from))}" height="${plot.bottom}"/><line x1="${at}" x2="${at}" y1="${margin.top}" y2="${plot.bottom}"/><text x="${plot.right}" y="11" text-anchor="end">${words}</text></g>`;
  });
  return html`<g class="places">${marks}</g>`;
}

/** The point that is nearest by x; points are in its order. */
function nearestTo(points: readonly CurvePoint[], x: number): CurvePoint | undefined {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle]?.x ?? 0) < x) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [points[low - 1], points[low]];
  if (!before || !after) return after;
  return x - before.x < after.x - x ? before : after;
}

function plotOf(all: readonly CurvePoint[], options: ChartOptions): Plot {
  const [xLow, xHigh] = rangeOf(all.map((point) => point.x));
  const hasArea = options.series.some((one) => one.kind === "area");
  const yScale = scaleOf(
    ...rangeOf([...all.map((point) => point.y), ...(options.include ?? []), ...(hasArea ? [0] : [])]),
    4,
  );
  const right = options.width - margin.right;
  const bottom = options.height - margin.bottom;
  const span = xHigh - xLow || 1;
  // The curve uses the whole width, so the axis ends where the data does, not at the next round number.
  // There is no half of a step.
  const ticks = scaleOf(xLow, xHigh, Math.min(xHigh - xLow, options.width > 600 ? 10 : 5)).ticks.filter(
    (tick) => tick >= xLow && tick <= xHigh && Number.isInteger(tick),
  );
  return {
    x: (value) => margin.left + ((value - xLow) / span) * (right - margin.left),
    y: (value) => bottom - ((value - yScale.low) / (yScale.high - yScale.low)) * (bottom - margin.top),
    xScale: { low: xLow, high: xHigh, ticks },
    yScale,
    right,
    bottom,
  };
}

function gridOf(plot: Plot, xLabel: string): Markup {
  const { bottom, right, x, xScale, y, yScale } = plot;
  const rows = yScale.ticks.map((tick) => {
    const isTiny = yScale.digits > 5 && Math.max(Math.abs(yScale.low), Math.abs(yScale.high)) < 1e-3;
    const label = Math.abs(tick) >= 10_000 || isTiny ? compact(tick) : figure(tick, yScale.digits);
    return html`<line class="${tick === yScale.low ? "axis" : "grid"}" x1="${margin.left}" x2="${right}" y1="${px(y(tick))}" y2="${px(y(tick))}"/><text x="${margin.left - 8}" y="${px(y(tick) + 3.5)}" text-anchor="end">${label}</text>`;
  });
  const columns = xScale.ticks
    .filter((tick) => x(tick) < right - 64 || xLabel === "")
    .map((tick) => html`<text x="${px(x(tick))}" y="${bottom + 17}" text-anchor="middle">${figure(tick)}</text>`);
  return html`<g>${rows}${columns}<text x="${right}" y="${bottom + 17}" text-anchor="end">${endOf(xLabel, xScale.high)}</text></g>`;
}

/** What the axis counts, and how far. */
function endOf(label: string, high: number): string {
  return label === "" ? "" : `${label} ${figure(Math.round(high))}`;
}

function seriesOf(plot: Plot, { color, kind, name, points }: Series): Markup {
  const at = (point: CurvePoint): string => `${px(plot.x(point.x))},${px(plot.y(point.y))}`;
  if (kind === "points" || points.length === 1) {
    const dots = points.map(
      (point) =>
        html`<circle cx="${px(plot.x(point.x))}" cy="${px(plot.y(point.y))}" r="3.5"><title>${name} ${figure(point.y, 3)} at ${figure(point.x)}</title></circle>`,
    );
    return html`<g class="dots ${color}">${dots}</g>`;
  }
  const path = `M${points.map(at).join("L")}`;
  if (kind === "line") return html`<path class="line ${color}" d="${path}"><title>${name}</title></path>`;
  const zero = px(plot.y(0));
  const closed = `${path}L${px(plot.x(points.at(-1)?.x ?? 0))},${zero}L${px(plot.x(points[0]?.x ?? 0))},${zero}Z`;
  return html`<path class="area ${color}" d="${closed}"><title>${name}</title></path>`;
}

function markOf({ bottom, x, xScale }: Plot, mark: { readonly x: number; readonly label: string }): Markup | null {
  const at = px(x(Math.min(xScale.high, Math.max(xScale.low, mark.x))));
  return html`<g class="mark"><line x1="${at}" x2="${at}" y1="${margin.top}" y2="${bottom}"/><circle cx="${at}" cy="${margin.top}" r="3"/><title>${mark.label}</title></g>`;
}

/** Coordinates with one digit: finer than any screen, and half the size of the file. */
export function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}
