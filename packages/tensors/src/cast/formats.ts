/**
 * Floating-point formats as bits of an IEEE 754 binary32. Numbers go through bits and never through JavaScript's numbers, which do not keep
 * the payload of a NaN. Rounding is to nearest, ties to even.
 */

/** Element types that can be cast into each other; each of them fits exactly into an f32. */
export type FloatDType = "f32" | "bf16" | "f16" | "f8_e4m3" | "f8_e5m2";

/** A format with less bits than an f32. `code` is the number with its sign in the low bits of a whole number. */
export interface Format {
  /** Bits of the f32 that has the same value. */
  readonly widen: (code: number) => number;
  /** The nearest number to an f32: too large is infinite, or NaN where the format has no infinity. */
  readonly narrow: (bits: number) => number;
}

interface Layout {
  readonly exponentBits: number;
  readonly mantissaBits: number;
  /** Largest finite number without its sign, as a code. */
  readonly maxFinite: number;
  /** What is larger becomes this. */
  readonly overflow: number;
  /** The NaN without payload; `null` where NaNs keep as much of their payload as there is room for. */
  readonly onlyNaN: number | null;
}

const quietBit = 0x0040_0000;
const infinityBits = 0x7f80_0000;
const absoluteMask = 0x7fff_ffff;

function formatOf(layout: Layout): Format {
  return { widen: (code) => widen(layout, code), narrow: (bits) => narrow(layout, bits) };
}

function narrow(layout: Layout, bits: number): number {
  const { exponentBits, mantissaBits, maxFinite, overflow, onlyNaN } = layout;
  const sign = (bits >>> 31) << (exponentBits + mantissaBits);
  const absolute = bits & absoluteMask;
  const shift = 23 - mantissaBits;
  if (absolute > infinityBits) return sign | (onlyNaN ?? overflow | (((absolute | quietBit) & 0x7f_ffff) >>> shift));
  const exponent = (absolute >>> 23) - 127 + (1 << (exponentBits - 1)) - 1;
  const mantissa = absolute & 0x7f_ffff;
  let code = 0;
  if (exponent >= 1 << exponentBits) code = overflow;
  else if (exponent >= 1) code = rounded((exponent << 23) | mantissa, shift);
  // A subnormal number: the leading one is written out, and moves to the right.
  else if (exponent >= -mantissaBits) code = rounded(mantissa | 0x80_0000, shift + 1 - exponent);
  return sign | (code > maxFinite ? overflow : code);
}

/** `value / 2 ** shift`, rounded to nearest, ties to even. */
function rounded(value: number, shift: number): number {
  return (value + (1 << (shift - 1)) - 1 + ((value >>> shift) & 1)) >>> shift;
}

function widen(layout: Layout, code: number): number {
  const { exponentBits, mantissaBits, maxFinite, overflow } = layout;
  const sign = (code >>> (exponentBits + mantissaBits)) * 0x8000_0000;
  const absolute = code & ((1 << (exponentBits + mantissaBits)) - 1);
  const shift = 23 - mantissaBits;
  const mantissa = absolute & ((1 << mantissaBits) - 1);
  if (absolute > maxFinite) {
    const isInfinite = layout.onlyNaN !== overflow && mantissa === 0;
    const payload = layout.onlyNaN === null ? mantissa << shift : quietBit;
    return sign + infinityBits + (isInfinite ? 0 : payload);
  }
  const bias = (1 << (exponentBits - 1)) - 1;
  const exponent = absolute >>> mantissaBits;
  if (exponent > 0) return sign + ((exponent - bias + 127) * 2 ** 23 + (mantissa << shift));
  if (mantissa === 0) return sign;
  const leading = 31 - Math.clz32(mantissa);
  const normal = (mantissa << (23 - leading)) & 0x7f_ffff;
  return sign + (leading - mantissaBits + 1 - bias + 127) * 2 ** 23 + normal;
}

const bf16: Format = {
  widen: (code) => code * 0x1_0000,
  narrow: (bits) =>
    (bits & absoluteMask) > infinityBits ? (bits >>> 16) | 0x40 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16,
};

/** All formats but f32 itself. Codes of fp8 follow PyTorch: `f8_e4m3` has no infinity, and NaNs of both have no payload. */
export const formats: Readonly<Record<Exclude<FloatDType, "f32">, Format>> = {
  bf16,
  f16: formatOf({ exponentBits: 5, mantissaBits: 10, maxFinite: 0x7bff, overflow: 0x7c00, onlyNaN: null }),
  f8_e4m3: formatOf({ exponentBits: 4, mantissaBits: 3, maxFinite: 0x7e, overflow: 0x7f, onlyNaN: 0x7f }),
  f8_e5m2: formatOf({ exponentBits: 5, mantissaBits: 2, maxFinite: 0x7b, overflow: 0x7c, onlyNaN: 0x7f }),
};
