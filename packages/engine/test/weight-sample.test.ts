/** Samples of weights: equal numbers give equal ones, and only versions that differ for servers in bf16 are said to. */

import { randomOf } from "@muster/base";
import { castFloats, type PlacedTensor } from "@muster/tensors";
import { describe, expect, it } from "vitest";
import { differ, WeightSample } from "../src/served/weight-sample.ts";

const count = 200_000;
const random = randomOf(7, 1);
const base = Float32Array.from({ length: count }, () => random.next() - 0.5);
const table = (dtype: "f32" | "bf16" | "u8", size: number): readonly PlacedTensor[] => [
  { name: "a", dtype, shape: [50_001], offsetBytes: 0, sizeBytes: size * 50_001 },
  { name: "b", dtype, shape: [count - 50_001], offsetBytes: size * 50_001, sizeBytes: size * (count - 50_001) },
];

function sampleOf(bytes: Uint8Array, tensors: readonly PlacedTensor[], windowBytes = bytes.length): Uint16Array {
  const sample = new WeightSample(tensors);
  for (let at = 0; at < bytes.length; at += windowBytes) sample.add(bytes.subarray(at, at + windowBytes), at);
  return sample.values();
}
const bytesOf = (floats: Float32Array): Uint8Array => new Uint8Array(floats.buffer);
const sample = (floats: Float32Array, windowBytes?: number) => sampleOf(bytesOf(floats), table("f32", 4), windowBytes);

describe("a sample of weights", () => {
  it("is small, and the same in whatever windows the section comes", () => {
    expect(sample(base).length).toBeGreaterThan(40_000);
    expect(sample(base).length).toBeLessThan(65_540);
    for (const windowBytes of [64, 4_096, 65_536, 400_004]) expect(sample(base, windowBytes)).toEqual(sample(base));
  });

  it("has the numbers as a cast to bf16 has them", () => {
    const bytes = new Uint8Array(2 * count);
    castFloats({ dtype: "f32", bytes: bytesOf(base) }, { dtype: "bf16", bytes });
    expect(sampleOf(bytes, table("bf16", 2))).toEqual(sample(base));
  });

  it("tells versions apart by sixteen numbers, and not by what a cast to bf16 loses", () => {
    const moved = (by: number): Float32Array => base.map((x) => x * (1 + by));
    expect(differ(sample(base), sample(moved(0.02)))).toBe(true);
    expect(differ(sample(base), sample(moved(0)))).toBe(false);
    expect(differ(sample(base), sample(base.slice().fill(0.5, 0, 50)))).toBe(false);
    expect(differ(sample(base), sample(base.slice().fill(0.5, 0, 100)))).toBe(true);
    const halves = new Float32Array(count).fill(0.5);
    expect(differ(sample(halves), sample(halves.map((x) => x + 2 ** -20)))).toBe(false);
  });

  it("says nothing of numbers of other types, and of versions that were not seen", () => {
    expect(sampleOf(bytesOf(base).subarray(0, count), table("u8", 1))).toHaveLength(0);
    expect(differ(sample(base), null)).toBe(false);
    expect(differ(null, null)).toBe(false);
  });
});
