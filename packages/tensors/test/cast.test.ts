import { randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import {
  castFloats,
  dequantize,
  dtypes,
  type FloatDType,
  quantize,
  type Scaling,
  scalesOf,
  scalesShapeOf,
} from "../src/index.ts";
import { type NaiveFormat, naiveFormats, nearest, numberOf } from "./support/naive-floats.ts";

const small = Object.keys(naiveFormats) as NaiveFormat[];
const codesOf = (format: NaiveFormat): number => 2 ** (8 * dtypes[format].bytes);

const bytesOfNumbers = (numbers: readonly number[]): Uint8Array => new Uint8Array(Float32Array.from(numbers).buffer);
const bytesOfBits = (bits: readonly number[]): Uint8Array => new Uint8Array(Uint32Array.from(bits).buffer);

function cast(from: FloatDType, bytes: Uint8Array, to: FloatDType): Uint8Array {
  const out = new Uint8Array((bytes.length / dtypes[from].bytes) * dtypes[to].bytes);
  castFloats({ dtype: from, bytes }, { dtype: to, bytes: out });
  return out;
}

function codes(format: NaiveFormat, bytes: Uint8Array): number[] {
  const size = dtypes[format].bytes;
  return Array.from(
    { length: bytes.length / size },
    (_, i) => bytes[size * i]! + (size === 2 ? bytes[2 * i + 1]! * 256 : 0),
  );
}

const allCodes = (format: NaiveFormat): Uint8Array =>
  dtypes[format].bytes === 1
    ? Uint8Array.from({ length: 256 }, (_, code) => code)
    : new Uint8Array(Uint16Array.from({ length: 65_536 }, (_, code) => code).buffer);

/** Numbers where rounding is hard: all values of a format, what lies half-way between two of them, and their neighbours among f32. */
function hardNumbers(format: NaiveFormat): number[] {
  const values = Array.from({ length: codesOf(format) }, (_, code) => numberOf(format, code)).filter(Number.isFinite);
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  const middles = sorted.slice(1).map((value, i) => (value + sorted[i]!) / 2);
  const top = sorted.at(-1)!;
  const beyond = [top + (top - sorted.at(-2)!) / 2, 2 * top - sorted.at(-2)!, 3e38];
  const around = [...sorted, ...middles, ...beyond, ...beyond.map((value) => -value)].flatMap((value) => {
    const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
    return [...new Float32Array(Uint32Array.of(bits, bits + 1, Math.max(0, bits - 1)).buffer)];
  });
  return around.filter((value) => !Number.isNaN(value));
}

describe("a cast", () => {
  it.each(small)("from %s gives the value of every code", (format) => {
    const numbers = new Float32Array(cast(format, allCodes(format), "f32").buffer);
    for (const [code, number] of numbers.entries())
      if (!Object.is(number, numberOf(format, code))) expect([code, number]).toEqual([code, numberOf(format, code)]);
  });

  it.each(small)("to %s rounds to the nearest, ties to even, at every number and half-way between", (format) => {
    const numbers = hardNumbers(format);
    const found = codes(format, cast("f32", bytesOfNumbers(numbers), format));
    for (const [i, number] of numbers.entries())
      if (!Object.is(numberOf(format, found[i]!), nearest(format, Math.fround(number))))
        expect([number, numberOf(format, found[i]!)]).toEqual([number, nearest(format, Math.fround(number))]);
  });

  it.each(small)("to %s gives what the naive way gives for any bits (seed 5)", (format) => {
    const random = randomOf(5, small.indexOf(format));
    const bits = Array.from({ length: 50_000 }, () => random.below(2 ** 32));
    const numbers = new Float32Array(Uint32Array.from(bits).buffer);
    for (const [i, code] of codes(format, cast("f32", bytesOfBits(bits), format)).entries())
      if (!Object.is(numberOf(format, code), nearest(format, numbers[i]!)))
        expect([numbers[i], numberOf(format, code)]).toEqual([numbers[i], nearest(format, numbers[i]!)]);
  });

  it.each(small)("to f32 and back leaves every code of %s, but for signalling NaNs, which become quiet", (format) => {
    const back = codes(format, cast("f32", cast(format, allCodes(format), "f32"), format));
    const { mantissa, isIeee } = naiveFormats[format];
    const quiet = isIeee ? 2 ** (mantissa - 1) : 0;
    for (const [code, found] of back.entries()) {
      if (!Number.isNaN(numberOf(format, code))) expect(found).toBe(code);
      // NaNs of eight bits have no payload.
      else
        expect(found & ~(dtypes[format].bytes === 1 ? 3 : 0)).toBe(
          (code | quiet) & ~(dtypes[format].bytes === 1 ? 3 : 0),
        );
    }
  });

  it("keeps sign and quiet bit of a NaN, which no larger type turns into a number", () => {
    const bits = [0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff];
    expect(codes("bf16", cast("f32", bytesOfBits(bits), "bf16"))).toEqual([0x7fc0, 0xffc0, 0x7fc0, 0xffc0, 0x7fff]);
    expect(codes("f16", cast("f32", bytesOfBits(bits), "f16"))).toEqual([0x7e00, 0xfe00, 0x7e00, 0xfe00, 0x7fff]);
    expect(codes("f8_e4m3", cast("f32", bytesOfBits(bits), "f8_e4m3"))).toEqual([0x7f, 0xff, 0x7f, 0xff, 0x7f]);
    expect(codes("f8_e5m2", cast("f32", bytesOfBits(bits), "f8_e5m2"))).toEqual([0x7f, 0xff, 0x7f, 0xff, 0x7f]);
  });

  it("between two small types is the same as through f32, at any alignment and length", () => {
    const random = randomOf(6, 1);
    for (const elements of [0, 1, 8191, 8192, 20_001]) {
      const buffer = Uint8Array.from({ length: 2 * elements + 1 }, () => random.below(256));
      const source = buffer.subarray(1);
      const direct = new Uint8Array(elements + 3).subarray(3);
      castFloats({ dtype: "bf16", bytes: source }, { dtype: "f8_e4m3", bytes: direct });
      expect(Buffer.compare(direct, cast("f32", cast("bf16", source, "f32"), "f8_e4m3"))).toBe(0);
    }
  });

  it("is refused when the sizes do not match", () => {
    const bytes = new Uint8Array(6);
    expect(() => castFloats({ dtype: "f32", bytes }, { dtype: "bf16", bytes })).toThrow(
      "6 bytes are no whole number of elements of f32",
    );
    expect(() => castFloats({ dtype: "f16", bytes }, { dtype: "bf16", bytes: new Uint8Array(4) })).toThrow(
      "3 elements of f16 do not fit 4 bytes",
    );
  });
});

describe("scales", () => {
  const scalings: Scaling[] = [
    { kind: "tensor" },
    { kind: "row" },
    { kind: "block", rows: 128, columns: 128 },
    { kind: "block", rows: 2, columns: 3 },
  ];
  const naiveArea = (scaling: Scaling, row: number, column: number): string =>
    scaling.kind === "tensor"
      ? "all"
      : scaling.kind === "row"
        ? `${row}`
        : `${Math.floor(row / scaling.rows)},${Math.floor(column / scaling.columns)}`;

  it.each(scalings)(
    "of %o make the largest of an area the largest of the type, and give back what the type can hold",
    (scaling) => {
      for (const [seed, to] of (["f8_e4m3", "f8_e5m2"] as const).entries()) {
        const random = randomOf(7, seed);
        const [rows, columns] = [1 + random.below(300), 1 + random.below(300)];
        const shape = { rows, columns, scaling };
        const numbers = Float32Array.from(
          { length: rows * columns },
          () => (random.next() - 0.5) * 2 ** (random.below(40) - 20),
        );
        const from = { dtype: "f32", bytes: new Uint8Array(numbers.buffer) } as const;
        const max = to === "f8_e4m3" ? 448 : 57_344;
        const most = new Map<string, number>();
        for (let i = 0; i < numbers.length; i++) {
          const area = naiveArea(scaling, Math.floor(i / columns), i % columns);
          most.set(area, Math.max(most.get(area) ?? 0, Math.abs(numbers[i]!)));
        }
        const scales = scalesOf(from, shape, to);
        expect([...scales]).toEqual([...most.values()].map((size) => Math.fround(size / max)));
        expect(scalesShapeOf(shape)[0] * scalesShapeOf(shape)[1]).toBe(most.size);
        const data = { dtype: to, bytes: new Uint8Array(numbers.length) };
        quantize(from, data, { ...shape, scales });
        const back = new Float32Array(numbers.length);
        dequantize(data, { dtype: "f32", bytes: new Uint8Array(back.buffer) }, { ...shape, scales });
        const keys = [...most.keys()];
        for (let i = 0; i < numbers.length; i++) {
          const scale = scales[keys.indexOf(naiveArea(scaling, Math.floor(i / columns), i % columns))]!;
          const code = nearest(to, Math.min(max, Math.max(-max, Math.fround(numbers[i]! / scale))));
          if (back[i] !== Math.fround(code * scale)) expect([i, back[i]]).toEqual([i, Math.fround(code * scale)]);
        }
      }
    },
  );

  it("of whole block rows are those of the tensor, so that a tensor is quantised in pieces", () => {
    const random = randomOf(8, 1);
    const numbers = Float32Array.from({ length: 300 * 130 }, () => random.next() - 0.5);
    const scaling = { kind: "block", rows: 128, columns: 128 } as const;
    const piece = (from: number, rows: number) =>
      scalesOf(
        { dtype: "f32", bytes: new Uint8Array(numbers.buffer).subarray(4 * 130 * from, 4 * 130 * (from + rows)) },
        { rows, columns: 130, scaling },
        "f8_e4m3",
      );
    expect([...piece(0, 128), ...piece(128, 172)]).toEqual([...piece(0, 300)]);
    const one = (from: number, rows: number) =>
      scalesOf(
        { dtype: "f32", bytes: new Uint8Array(numbers.buffer).subarray(4 * 130 * from, 4 * 130 * (from + rows)) },
        { rows, columns: 130, scaling: { kind: "tensor" } },
        "f8_e4m3",
      )[0]!;
    expect(Math.max(one(0, 100), one(100, 200))).toBe(one(0, 300));
  });

  it("hide nothing that is not finite, and are 1 for zeros", () => {
    const bytes = bytesOfNumbers([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 2, 0, -0, 0, 0]);
    const shape = { rows: 2, columns: 4, scaling: { kind: "row" } } as const;
    const scales = scalesOf({ dtype: "f32", bytes }, shape, "f8_e4m3");
    expect([...scales]).toEqual([Math.fround(2 / 448), 1]);
    const data = { dtype: "f8_e4m3", bytes: new Uint8Array(8) } as const;
    quantize({ dtype: "f32", bytes }, data, { ...shape, scales });
    expect([...data.bytes]).toEqual([0x7f, 0x7f, 0xff, 0x7e, 0, 0x80, 0, 0]);
  });

  it("of the smallest numbers stay numbers", () => {
    const bytes = bytesOfNumbers([2 ** -149, 0]);
    const shape = { rows: 1, columns: 2, scaling: { kind: "tensor" } } as const;
    expect(scalesOf({ dtype: "f32", bytes }, shape, "f8_e4m3")[0]).toBe(2 ** -126);
  });

  it("are refused in another number, when they are no numbers, and for bytes of another shape", () => {
    const shape = { rows: 2, columns: 2, scaling: { kind: "row" } } as const;
    const [from, to] = [
      { dtype: "bf16", bytes: new Uint8Array(8) },
      { dtype: "f8_e4m3", bytes: new Uint8Array(4) },
    ] as const;
    expect(() => quantize(from, to, { ...shape, scales: Float32Array.of(1) })).toThrow("1 scales are not 2 × 1");
    expect(() => quantize(from, to, { ...shape, scales: Float32Array.of(1, 0) })).toThrow("a scale is 0");
    expect(() => dequantize(to, from, { ...shape, scales: Float32Array.of(1, Number.NaN) })).toThrow("a scale is NaN");
    expect(() => scalesOf({ ...from, bytes: new Uint8Array(6) }, shape, "f8_e5m2")).toThrow(
      "6 bytes of bf16 are not 2 × 2",
    );
  });
});
