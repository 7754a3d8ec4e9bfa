import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { allReduceTensors, type CollectiveGroup, type DType, openGroup, planFusion } from "../src/index.ts";
import { job, key, never, socketFolder } from "./support/fixtures.ts";

const f32 = (bytes: number) => ({ dtype: "f32", bytes }) as const;
const bf16 = (bytes: number) => ({ dtype: "bf16", bytes }) as const;
const capacityBytes = 2 ** 22;

describe("the fusion plan", () => {
  it("fuses when there are several tensors and together they reach the threshold, and not otherwise", () => {
    const half = 2 ** 19;
    expect(planFusion([f32(half), f32(half)], { capacityBytes })).toMatchObject([{ tensors: [{}, {}] }]);
    expect(planFusion([f32(half), f32(half - 4)], { capacityBytes })).toHaveLength(2);
    expect(planFusion([f32(2 ** 21)], { capacityBytes })).toMatchObject([{ count: 2 ** 19, tensors: [{ index: 0 }] }]);
    expect(planFusion([], { capacityBytes })).toEqual([]);
  });

  it("keeps types apart and the order within a type, pads to cache lines, and cuts at the capacity", () => {
    const tensors = [f32(4), bf16(2), f32(0), f32(100), bf16(6)];
    expect(planFusion(tensors, { thresholdBytes: 0, capacityBytes: 192 })).toEqual([
      {
        dtype: "f32",
        count: 41,
        tensors: [
          { index: 0, offsetBytes: 0, bytes: 4 },
          { index: 2, offsetBytes: 64, bytes: 0 },
          { index: 3, offsetBytes: 64, bytes: 100 },
        ],
      },
      {
        dtype: "bf16",
        count: 35,
        tensors: [
          { index: 1, offsetBytes: 0, bytes: 2 },
          { index: 4, offsetBytes: 64, bytes: 6 },
        ],
      },
    ]);
    expect(planFusion(tensors, { thresholdBytes: 0, capacityBytes: 128 }).map((each) => each.tensors.length)).toEqual([
      2, 1, 2,
    ]);
  });

  it("has every byte of every tensor exactly once, within the capacity, whatever the sizes", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const tensors = Array.from({ length: seed % 40 }, (_, i) => {
        const dtype: DType = (i * seed) % 3 === 0 ? "bf16" : "f32";
        return { dtype, bytes: ((i * 7919 * seed) % 500) * 4 };
      });
      const plan = planFusion(tensors, { thresholdBytes: seed * 50, capacityBytes: 2000 });
      const seen = plan.flatMap(({ dtype, count, tensors: fused }) => {
        const size = dtype === "f32" ? 4 : 2;
        let end = 0;
        for (const { index, offsetBytes, bytes } of fused) {
          expect(offsetBytes).toBeGreaterThanOrEqual(end);
          end = offsetBytes + bytes;
          expect(tensors[index]).toEqual({ dtype, bytes });
        }
        expect(count * size).toBe(end);
        expect(end).toBeLessThanOrEqual(2000);
        return fused.filter(({ bytes }) => bytes > 0).map(({ index }) => index);
      });
      const wanted = tensors.flatMap(({ bytes }, index) => (bytes > 0 ? [index] : []));
      expect(seen.sort((a, b) => a - b)).toEqual(wanted);
    }
  });

  it("refuses tensors that do not fit or are not whole", () => {
    expect(() => planFusion([f32(8)], { capacityBytes: 4 })).toThrow("tensors[0].bytes is 8; give a whole number");
    expect(() => planFusion([f32(4), f32(6)], { capacityBytes })).toThrow("tensors[1].bytes is 6; give whole elements");
  });
});

describe("the sum of many tensors", () => {
  let folder: ReturnType<typeof socketFolder>;
  let ranks: CollectiveGroup[] = [];
  beforeEach(async () => {
    folder = socketFolder();
    const common = { key, job, name: "tensors", epoch: 1, members: ["a", "b"], socketDir: folder.path, signal: never };
    ranks = await Promise.all(
      [0, 1].map((rank) => openGroup({ ...common, rank, capacityBytes: 8192, deadlineMs: 10_000 })),
    );
  });
  afterEach(() => {
    for (const group of ranks) group.close();
    folder.remove();
  });

  it("is that of each tensor alone, scalars and empty ones among them, fused or not", async () => {
    const sizes = [1, 0, 300, 17, 1500, 2];
    for (const thresholdBytes of [0, 2 ** 20]) {
      const results = await Promise.all(
        ranks.map(async (group) => {
          const tensors = sizes.map((count, t) => {
            const values = Float32Array.from({ length: count }, (_, i) => i + t + group.rank * 1000);
            const from = new Uint8Array(values.buffer);
            return { dtype: "f32" as const, from, into: new Uint8Array(from.byteLength) };
          });
          await allReduceTensors(group, tensors, { thresholdBytes, deadlineMs: 10_000, signal: never });
          return tensors.map(({ into }) => [...new Float32Array(into.buffer)]);
        }),
      );
      const expected = sizes.map((count, t) => Array.from({ length: count }, (_, i) => 2 * (i + t) + 1000));
      expect(results).toEqual([expected, expected]);
    }
  });

  it("goes to where it came from when asked, and refuses parts that would leave the operation", async () => {
    const waiting = { dtype: "f32", count: 4, deadlineMs: 10_000, signal: never } as const;
    const sums = await Promise.all(
      ranks.map(async (group) => {
        const values = Float32Array.of(1, 2, group.rank);
        const own = new Uint8Array(values.buffer);
        await group.allReduceParts({ ...waiting, parts: [{ from: own, into: own, offsetBytes: 4 }] });
        return [...values];
      }),
    );
    expect(sums).toEqual([
      [2, 4, 1],
      [2, 4, 1],
    ]);
    const four = new Uint8Array(4);
    const refused = (offsetBytes: number, into: Uint8Array) =>
      ranks[0]?.allReduceParts({ ...waiting, parts: [{ from: four, into, offsetBytes }] });
    await expect(refused(13, four)).rejects.toThrow("parts[0].offsetBytes is 13; give a whole number from 0 to 12");
    await expect(refused(0, new Uint8Array(5))).rejects.toThrow("parts[0].into.byteLength is 5");
  });
});
