/** Sketches of weights: equal bytes give equal sketches, and distances come out about right. */
import { randomOf } from "@muster/base";
import { sketchLength } from "@muster/protocol";
import { castFloats, type PlacedTensor } from "@muster/tensors";
import { describe, expect, it } from "vitest";
import { sketchOf } from "../src/sketch.ts";

const count = 150_000;
const random = randomOf(5, 1);
const base = Float32Array.from({ length: count }, () => random.next() - 0.5);
const bytesOf = (floats: Float32Array): Uint8Array => new Uint8Array(floats.buffer);
const table = (dtype: "f32" | "bf16", size: number): readonly PlacedTensor[] => [
  { name: "a", dtype, shape: [50, 1000], offsetBytes: 0, sizeBytes: size * 50_000 },
  { name: "b", dtype, shape: [100_000], offsetBytes: size * 50_000, sizeBytes: size * 100_000 },
];
const sketch = (floats: Float32Array): number[] => sketchOf(bytesOf(floats), table("f32", 4));
const apart = (a: readonly number[], b: readonly number[]): number => Math.hypot(...a.map((x, i) => x - (b[i] ?? 0)));
/** Length of all weights, as a sketch has it. */
const scale = Math.sqrt(sketchLength);

describe("a sketch of weights", () => {
  it("is the same for the same bytes", () => {
    expect(sketch(base)).toEqual(sketch(base.slice()));
    expect(sketch(base)).toHaveLength(sketchLength);
  });

  it.each([1e-4, 1e-2, 1])("tells a distance of %f times the norm within a half", (share) => {
    const other = base.map((x) => x + share * (random.next() - 0.5));
    const distance = Math.sqrt(other.reduce((sum, x, i) => sum + (x - (base[i] ?? 0)) ** 2, 0));
    const told = apart(sketch(base), sketch(other)) / scale;
    expect(told / distance).toBeGreaterThan(0.5);
    expect(told / distance).toBeLessThan(1.5);
  });

  it("sees one weight that changed, wherever it is", () => {
    for (const at of [0, 49_999, 50_000, 70_001, count - 1]) {
      const other = base.slice();
      other[at] = (other[at] ?? 0) + 3;
      expect(apart(sketch(base), sketch(other)) / scale).toBeCloseTo(3, 3);
    }
  });

  it("is of the numbers, in whatever type they are", () => {
    const bytes = new Uint8Array(2 * count);
    castFloats({ dtype: "f32", bytes: bytesOf(base) }, { dtype: "bf16", bytes });
    const [told, exact] = [sketchOf(bytes, table("bf16", 2)), sketch(base)];
    expect(apart(told, exact) / Math.hypot(...exact)).toBeLessThan(0.01);
  });
});
