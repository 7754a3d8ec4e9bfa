/** Small floating-point formats by their definition, in float64: every number of a format is written down, and the nearest is looked for. */

/** Name, bits of exponent and mantissa; whether the largest exponent holds infinity and NaNs (IEEE 754) or numbers and one NaN. */
export const naiveFormats = {
  bf16: { exponent: 8, mantissa: 7, isIeee: true },
  f16: { exponent: 5, mantissa: 10, isIeee: true },
  f8_e4m3: { exponent: 4, mantissa: 3, isIeee: false },
  f8_e5m2: { exponent: 5, mantissa: 2, isIeee: true },
} as const;

export type NaiveFormat = keyof typeof naiveFormats;

/** The value of a code. */
export function numberOf(format: NaiveFormat, code: number): number {
  const { exponent, mantissa, isIeee } = naiveFormats[format];
  const sign = (code >> (exponent + mantissa)) & 1 ? -1 : 1;
  const e = (code >> mantissa) & (2 ** exponent - 1);
  const m = code & (2 ** mantissa - 1);
  const isTop = e === 2 ** exponent - 1;
  if (isTop && isIeee) return m === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (isTop && m === 2 ** mantissa - 1) return Number.NaN;
  const bias = 2 ** (exponent - 1) - 1;
  return sign * (e === 0 ? m * 2 ** (1 - bias - mantissa) : (1 + m / 2 ** mantissa) * 2 ** (e - bias));
}

/** Finite values without sign, by code. */
const ladders = new Map<NaiveFormat, readonly number[]>();

function ladderOf(format: NaiveFormat): readonly number[] {
  const { exponent, mantissa } = naiveFormats[format];
  const known = ladders.get(format);
  if (known) return known;
  const ladder = Array.from({ length: 2 ** (exponent + mantissa) }, (_, code) => numberOf(format, code)).filter(
    Number.isFinite,
  );
  ladders.set(format, ladder);
  return ladder;
}

/** The nearest value to `value`, ties to the even code: as if the ladder went on beyond its end, where numbers count as too large. */
export function nearest(format: NaiveFormat, value: number): number {
  if (Number.isNaN(value)) return Number.NaN;
  const ladder = ladderOf(format);
  const size = Math.abs(value);
  const sign = Object.is(Math.sign(value), -0) || value < 0 ? -1 : 1;
  const tooLarge = naiveFormats[format].isIeee ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  const top = ladder.length - 1;
  const beyond = 2 * ladder[top]! - ladder[top - 1]!;
  const at = (code: number): number => (code > top ? beyond : ladder[code]!);
  if (size >= beyond) return tooLarge;
  let [low, high] = [0, top + 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (at(middle) <= size) low = middle;
    else high = middle;
  }
  const [below, above] = [size - at(low), at(high) - size];
  const code = below < above || (below === above && low % 2 === 0) ? low : high;
  return code > top ? tooLarge : sign * ladder[code]!;
}
