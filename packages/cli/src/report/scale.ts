/** Axes: round numbers that cover a range, and curves thinned to what a chart can show. */
import { meanOf } from "./text.ts";

/** One point of a curve. */
export interface CurvePoint {
  readonly x: number;
  readonly y: number;
}

/** A range and its round tick values, ascending; the first and the last tick are the ends of the range. */
export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** Digits after the point that tell the ticks apart. */
  readonly digits: number;
}

/** Covers `[low, high]` with about `count` steps of 1, 2, 2.5 or 5 times a power of ten. */
export function scaleOf(low: number, high: number, count: number): Scale {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return scaleOf(0, 1, count);
  if (high <= low) return scaleOf(low === 0 ? 0 : low - Math.abs(low) / 2, low + (Math.abs(low) / 2 || 1), count);
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 2.5, 5, 10].find((candidate) => candidate * power >= rough * (1 - 1e-9)) ?? 10;
  const step = factor * power;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (factor === 2.5 ? 1 : 0));
  return { low: first * step, high: last * step, ticks, digits: Math.min(6, digits) };
}

/** Range of the finite ones of these numbers; `[0, 1]` of none. */
export function rangeOf(values: readonly number[]): readonly [number, number] {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [0, 1];
}

/** Points with two finite coordinates, by x. */
export function finitePoints(points: readonly CurvePoint[]): readonly CurvePoint[] {
  return points.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)).sort((a, b) => a.x - b.x);
}

/** Thins a curve to at most `limit` points, each the mean of its neighbours; short curves stay as they are. */
export function thinned(points: readonly CurvePoint[], limit: number): readonly CurvePoint[] {
  if (points.length <= limit) return points;
  return Array.from({ length: limit }, (_, index) => {
    const from = Math.floor((index * points.length) / limit);
    const bucket = points.slice(from, Math.floor(((index + 1) * points.length) / limit));
    return { x: meanOf(bucket.map((point) => point.x)) ?? 0, y: meanOf(bucket.map((point) => point.y)) ?? 0 };
  });
}

/** Each point's mean with the up to `count - 1` points before it. */
export function runningMean(points: readonly CurvePoint[], count: number): readonly CurvePoint[] {
  let sum = 0;
  return points.map((point, index) => {
    sum += point.y - (index >= count ? (points[index - count]?.y ?? 0) : 0);
    return { x: point.x, y: sum / Math.min(index + 1, count) };
  });
}
