/**
 * A gradient as engines and the data plane see it: float32, in memory that may be larger than one array of JavaScript, and so through windows.
 */

/** Some elements of a gradient. */
export interface GradientWindow {
  /** Number of its first element in the whole. */
  readonly from: number;
  /** A view: what is written here is in the gradient. */
  readonly values: Float32Array;
}

/** The memory of one gradient. */
export interface GradientMemory {
  readonly elements: number;
  /** Windows that cover all of it once, in order; each is made when it is asked for. */
  windows(): Iterable<GradientWindow>;
}

/** Most elements of a window of the data plane: 1 GiB. */
export const gradientWindowMax = 2 ** 28;

/** Memory that `view` shows window by window. A gradient of up to `windowMax` elements is one window. */
export function gradientThrough(
  elements: number,
  view: (window: { readonly from: number; readonly elements: number }) => Float32Array,
  windowMax = gradientWindowMax,
): GradientMemory {
  return {
    elements,
    *windows() {
      for (let from = 0; from < elements; from += windowMax)
        yield { from, values: view({ from, elements: Math.min(windowMax, elements - from) }) };
    },
  };
}

/** A gradient in one array, for engines and tests that have it so. */
export function gradientIn(values: Float32Array, windowMax = gradientWindowMax): GradientMemory {
  return gradientThrough(values.length, ({ from, elements }) => values.subarray(from, from + elements), windowMax);
}

/** Copies an array of the whole gradient into its memory. */
export function writeGradient(gradient: GradientMemory, whole: Float32Array): void {
  for (const { from, values } of gradient.windows()) values.set(whole.subarray(from, from + values.length));
}

/** Copies a gradient into an array of its length. */
export function readGradient(gradient: GradientMemory, whole: Float32Array): void {
  for (const { from, values } of gradient.windows()) whole.set(values, from);
}
