import { type Random, randomOf, shuffled } from "@muster/base";
import { describe, expect, it } from "vitest";
import {
  castFloats,
  type FloatDType,
  type PlacedTensor,
  placeDensely,
  type ReadSection,
  type Rule,
  SectionConversion,
  type TensorMismatch,
  type TensorSpec,
} from "../src/index.ts";

const floats = ["f32", "bf16", "f16"] as const;

const drawTable = (random: Random, prefix: string): TensorSpec[] =>
  Array.from({ length: 1 + random.below(8) }, (_, i) => ({
    name: `${prefix}.${i}.weight`,
    dtype: floats[random.below(3)] ?? "f32",
    shape: [1 + random.below(5), 1 + random.below(9)],
  }));

const drawSection = (table: readonly PlacedTensor[], random: Random): Uint8Array => {
  const section = new Uint8Array(table.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
  for (const { dtype, offsetBytes, sizeBytes, shape } of table) {
    const elements = shape.reduce((all, size) => all * size, 1);
    const numbers = Float32Array.from({ length: elements }, () => random.next() * 4 - 2);
    const bytes = section.subarray(offsetBytes, offsetBytes + sizeBytes);
    castFloats({ dtype: "f32", bytes: new Uint8Array(numbers.buffer) }, { dtype: dtype as FloatDType, bytes });
  }
  return section;
};

const readerOf =
  (section: Uint8Array): ReadSection =>
  async (into, from) =>
    into.set(section.subarray(from, from + into.length));

const found = (conversion: SectionConversion | TensorMismatch): SectionConversion => {
  if (conversion instanceof SectionConversion) return conversion;
  throw new Error(JSON.stringify(conversion));
};

const [a, b] = placeDensely([
  { name: "a", dtype: "f32", shape: [2, 3] },
  { name: "b", dtype: "i64", shape: [4] },
]) as [PlacedTensor, PlacedTensor];

describe("a section of weights", () => {
  it.each(Array.from({ length: 30 }, (_, seed) => seed))(
    "becomes one with other names, order and types as tensor by tensor, read by any windows (seed %i)",
    async (seed) => {
      const random = randomOf(seed, 5);
      const given = placeDensely(drawTable(random, "theirs"));
      const isRenamed = random.below(2) === 0;
      const rules: Rule[] = isRenamed ? [{ kind: "rename", from: "theirs.{n}.weight", to: "ours.{n}.gain" }] : [];
      const nameOf = (name: string): string => (isRenamed ? `ours.${name.split(".")[1]}.gain` : name);
      const sources = new Map(given.map((tensor) => [nameOf(tensor.name), tensor]));
      const wanted = placeDensely(
        shuffled(given, random).map(({ name, shape }) => ({
          name: nameOf(name),
          dtype: floats[random.below(3)] ?? "f32",
          shape,
        })),
      );
      const section = drawSection(given, random);
      const conversion = found(SectionConversion.between(given, wanted, rules));
      const expected = new Uint8Array(conversion.bytes);
      for (const { name, dtype, offsetBytes, sizeBytes } of wanted) {
        const source = sources.get(name) as PlacedTensor;
        castFloats(
          {
            dtype: source.dtype as FloatDType,
            bytes: section.subarray(source.offsetBytes, source.offsetBytes + source.sizeBytes),
          },
          { dtype: dtype as FloatDType, bytes: expected.subarray(offsetBytes, offsetBytes + sizeBytes) },
        );
      }
      const whole = new Uint8Array(conversion.bytes).fill(0xee);
      await conversion.copy(readerOf(section), whole);
      expect(whole).toEqual(expected);
      for (let i = 0; i < 10; i++) {
        const from = random.below(conversion.bytes + 1);
        const window = new Uint8Array(random.below(conversion.bytes - from + 1)).fill(0xee);
        await conversion.copy(readerOf(section), window, from);
        expect(window).toEqual(expected.subarray(from, from + window.length));
      }
    },
  );

  it("is said to have as many casts as tensors get another type", () => {
    const wanted = placeDensely([{ ...b }, { ...a, dtype: "bf16" }]);
    expect(found(SectionConversion.between([a, b], wanted)).casts).toBe(1);
    expect(found(SectionConversion.between([a, b], placeDensely([b, a]))).casts).toBe(0);
  });

  it.each<[string, readonly TensorSpec[], readonly Rule[], TensorMismatch]>([
    ["is not there", [a], [], { what: 'tensor "b"', given: "i64[4]", wanted: "not there" }],
    [
      "is there and not wanted",
      [a, b, { ...a, name: "c" }],
      [],
      { what: 'tensor "c"', given: "not there", wanted: "f32[2, 3]" },
    ],
    [
      "has another shape",
      [{ ...a, shape: [3, 2] }, b],
      [],
      { what: 'tensor "a"', given: "f32[2, 3]", wanted: "f32[3, 2]" },
    ],
    ["has whole numbers", [a, { ...b, dtype: "f32" }], [], { what: 'tensor "b"', given: "i64[4]", wanted: "f32[4]" }],
    [
      "needs a scale",
      [{ ...a, dtype: "f8_e4m3" }, b],
      [],
      { what: 'tensor "a"', given: "f32[2, 3]", wanted: "f8_e4m3[2, 3]" },
    ],
    [
      "is not what a rule makes",
      [{ ...a, name: "x" }, b],
      [{ kind: "rename", from: "a", to: "y" }],
      { what: 'tensor "x"', given: "not there", wanted: "f32[2, 3]" },
    ],
  ])("stays what it is when a tensor %s", (_, wanted, rules, mismatch) => {
    expect(SectionConversion.between([a, b], placeDensely(wanted), rules)).toEqual(mismatch);
  });

  it("with a tensor left out as a copy of another is refused when it is none", async () => {
    const given = placeDensely(["head", "embed"].map((name) => ({ name, dtype: "f32", shape: [3] })));
    const wanted = placeDensely([{ name: "embed", dtype: "f32", shape: [3] }]);
    const tied = found(SectionConversion.between(given, wanted, [{ kind: "tie", name: "head", to: "embed" }]));
    const section = new Uint8Array(24).fill(7);
    await tied.check(readerOf(section));
    section[3] = 8;
    await expect(tied.check(readerOf(section))).rejects.toThrow('"head" has other bytes than "embed"');
  });
});
