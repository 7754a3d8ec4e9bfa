import { randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import {
  type ModelTensor,
  type ParallelLayout,
  planRank,
  planReshard,
  ranksOf,
  sectionSizes,
  shardsOf,
} from "../src/index.ts";
import { splitNaively } from "./support/model.ts";
import { planNaively } from "./support/plan-naively.ts";

type Random = ReturnType<typeof randomOf>;

function drawModel(random: Random, layers: number): ModelTensor[] {
  const tensors: ModelTensor[] = [];
  const add = (name: string, layer: ModelTensor["layer"]): void => {
    const shape = Array.from({ length: 1 + random.below(3) }, () => 1 + random.below(13));
    const partition = random.below(3) === 0 ? null : random.below(shape.length);
    tensors.push({ name, shape, elementBytes: 2 ** random.below(3), partition, layer });
  };
  add("embedding", "first");
  for (let layer = 0; layer < layers; layer++)
    for (let i = 0; i < 1 + random.below(4); i++) add(`layers.${layer}.${i}`, layer);
  add("head", "last");
  return tensors;
}

/** The same with FSDP, by rows or flat. */
const drawSharded = (random: Random, layers: number): ParallelLayout => ({
  ...drawLayout(random, layers),
  fsdp: 1 + random.below(6),
  fsdpCut: random.below(2) === 0 ? "rows" : "flat",
});

const drawLayout = (random: Random, layers: number): ParallelLayout => ({
  tp: 1 + random.below(5),
  pp: 1 + random.below(Math.min(layers, 4)),
  dp: 1 + random.below(3),
  ...(random.below(2) === 0 ? { align: 2 ** random.below(9) } : {}),
});

/** Follows the plan of every rank, and compares with what gathering and cutting gives. */
function expectPlanned(
  tensors: readonly ModelTensor[],
  [from, to]: readonly [ParallelLayout, ParallelLayout],
  cut: readonly ModelTensor[] = tensors,
): void {
  const sources = Array.from({ length: ranksOf(from) }, (_, rank) => splitNaively(cut, from, rank));
  for (let rank = 0; rank < ranksOf(to); rank++) {
    const { slices, sectionBytes } = planRank(tensors, [from, to], rank, cut);
    const section = new Uint8Array(sectionBytes);
    let taken = 0;
    for (const slice of slices)
      for (let row = 0; row < slice.count; row++) {
        const at = slice.sourceOffset + row * slice.sourceStride;
        const bytes = sources[slice.from]!.subarray(at, at + slice.bytes);
        expect(bytes).toHaveLength(slice.bytes);
        section.set(bytes, slice.targetOffset + row * slice.targetStride);
        taken += slice.bytes;
      }
    expect(Buffer.compare(section, splitNaively(tensors, to, rank))).toBe(0);
    expect(sectionBytes).toBe(sectionSizes(tensors, to)[rank]);
    // No byte is taken twice.
    expect(taken).toBe(shardsOf(tensors, to, rank).reduce((sum, { bytes }) => sum + bytes, 0));
  }
}

describe("a plan from one layout to another", () => {
  it.each(Array.from({ length: 60 }, (_, seed) => seed))("gives what gathering and cutting gives (seed %i)", (seed) => {
    const random = randomOf(seed, 1);
    const layers = 1 + random.below(7);
    const tensors = drawModel(random, layers);
    expectPlanned(tensors, [drawLayout(random, layers), drawLayout(random, layers)]);
  });

  it.each(Array.from({ length: 120 }, (_, seed) => seed))(
    "gives that also from, to and between shards of FSDP, whatever dimension either side cuts (seed %i)",
    (seed) => {
      const random = randomOf(seed, 3);
      const layers = 1 + random.below(4);
      const tensors = drawModel(random, layers);
      const draw = (isSharded: boolean) => (isSharded ? drawSharded : drawLayout)(random, layers);
      const sources = tensors.map((tensor): ModelTensor => {
        return { ...tensor, partition: random.below(3) === 0 ? null : random.below(tensor.shape.length) };
      });
      expectPlanned(tensors, [draw(seed % 3 < 2), draw(seed % 3 > 0)], sources);
    },
  );

  it.each(Array.from({ length: 60 }, (_, seed) => seed))(
    "is the one of the naive way, also when one rank plans for itself (seed %i)",
    (seed) => {
      const random = randomOf(seed, 2);
      const layers = 1 + random.below(7);
      const tensors = drawModel(random, layers);
      const [from, to] = [drawLayout(random, layers), drawLayout(random, layers)];
      const plans = planReshard(tensors, from, to);
      for (let rank = 0; rank < ranksOf(to); rank++) {
        const naive = planNaively(tensors, [from, to], rank);
        expect(plans[rank]).toEqual(naive);
        expect(planRank(tensors, [from, to], rank)).toEqual(naive);
      }
      expect(sectionSizes(tensors, to)).toEqual(plans.map(({ sectionBytes }) => sectionBytes));
    },
  );

  it("spreads what several ranks have over all of them", () => {
    const tensors = Array.from({ length: 16 }, (_, layer): ModelTensor => {
      return { name: `layers.${layer}`, shape: [64, 32], elementBytes: 2, partition: layer % 2, layer };
    });
    const given = new Array<number>(8).fill(0);
    for (const { slices } of planReshard(tensors, { tp: 2, pp: 1, dp: 4 }, { tp: 4, pp: 1, dp: 1 }))
      for (const { from, bytes, count } of slices) given[from] = given[from]! + bytes * count;
    expect(new Set(given).size).toBe(1);
  });

  it("spreads tensors that nobody cuts over all who have them, though each rank plans for itself", () => {
    const norms = Array.from({ length: 6 }, (_, layer): ModelTensor => {
      return { name: `norms.${layer}`, shape: [64], elementBytes: 2, partition: null, layer };
    });
    const tp8 = { tp: 8, pp: 1, dp: 1 };
    const given = new Array<number>(8).fill(0);
    for (let rank = 0; rank < 8; rank++)
      for (const { from, bytes } of planRank(norms, [tp8, tp8], rank).slices) given[from] = (given[from] ?? 0) + bytes;
    expect(given).toEqual(new Array(8).fill(6 * 128));
  });

  it("of 200,000 tensors over 32 ranks is one of seconds at most", () => {
    const tensors = Array.from({ length: 200_000 }, (_, i): ModelTensor => {
      return { name: `w.${i}`, shape: [64, 3], elementBytes: 2, partition: i % 8 === 0 ? null : 0, layer: i % 61 };
    });
    const [from, to] = [
      { tp: 32, pp: 1, dp: 1 },
      { tp: 24, pp: 1, dp: 1 },
    ];
    const startedMs = performance.now();
    const { slices } = planRank(tensors, [from, to], 12);
    expect(performance.now() - startedMs).toBeLessThan(10_000); // planning for all ranks takes minutes
    expect(slices.length).toBeGreaterThan(tensors.length);
  }, 20_000);

  it("takes a tensor that nobody cuts in one piece", () => {
    const norm: ModelTensor = { name: "norm", shape: [7, 3], elementBytes: 4, partition: null, layer: 0 };
    const [plan] = planReshard([norm], { tp: 2, pp: 1, dp: 1 }, { tp: 1, pp: 1, dp: 1 });
    expect(plan?.slices).toEqual([
      {
        tensor: "norm",
        from: 0,
        sourceOffset: 0,
        sourceStride: 84,
        targetOffset: 0,
        targetStride: 84,
        bytes: 84,
        count: 1,
      },
    ]);
  });

  it("cuts rows as torch.chunk does, within what tensor parallelism leaves", () => {
    const model: ModelTensor[] = [
      { name: "ten", shape: [10, 2], elementBytes: 4, partition: 0, layer: 0 },
      { name: "five", shape: [5], elementBytes: 4, partition: null, layer: 0 },
    ];
    const rowsOf = (layout: ParallelLayout) =>
      Array.from({ length: ranksOf(layout) }, (_, rank) =>
        shardsOf(model, layout, rank).map(({ rows }) => rows?.length),
      );
    expect(rowsOf({ tp: 1, fsdp: 4, pp: 1, dp: 1 })).toEqual([
      [3, 2],
      [3, 2],
      [3, 1],
      [1, 0],
    ]);
    expect(rowsOf({ tp: 2, fsdp: 2, pp: 1, dp: 1 })).toEqual([
      [3, 3],
      [3, 3],
      [2, 2],
      [2, 2],
    ]);
  });

  it("takes columns from shards of rows with one slice for each shard, not one for each row", () => {
    const matrix: ModelTensor = { name: "w", shape: [4096, 4096], elementBytes: 2, partition: 1, layer: 0 };
    const { slices } = planRank(
      [matrix],
      [
        { tp: 1, fsdp: 64, pp: 1, dp: 1 },
        { tp: 8, pp: 1, dp: 1 },
      ],
      3,
    );
    expect(slices).toHaveLength(64);
    expect(slices[5]).toMatchObject({ from: 5, bytes: 1024, count: 64, sourceStride: 8192, targetStride: 1024 });
  });

  it("from shards of 3,000 ranks is one of seconds at most", () => {
    const tensors = Array.from({ length: 200 }, (_, i): ModelTensor => {
      return { name: `w.${i}`, shape: [6_000, 64], elementBytes: 2, partition: i % 2, layer: i % 61 };
    });
    const startedMs = performance.now();
    const { slices } = planRank(
      tensors,
      [
        { tp: 1, fsdp: 3_000, pp: 1, dp: 1 },
        { tp: 2_000, pp: 1, dp: 1 },
      ],
      12,
    );
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    expect(slices.length).toBeGreaterThan(100 * 3_000);
  }, 20_000);

  it("leads from and to sections whose shards begin where the layout says", () => {
    const tensors = [3, 5].map((size, layer): ModelTensor => {
      return { name: `layers.${layer}`, shape: [size], elementBytes: 4, partition: null, layer };
    });
    const one = { tp: 1, pp: 1, dp: 1 };
    const [plan] = planReshard(tensors, { ...one, align: 1 }, one);
    expect(plan?.sectionBytes).toBe(84);
    expect(plan?.slices.map(({ sourceOffset, targetOffset }) => [sourceOffset, targetOffset])).toEqual([
      [0, 0],
      [12, 64],
    ]);
    expect(() => planReshard(tensors, { ...one, align: 0 }, one)).toThrow("layout.align is 0");
  });

  it("is refused for layouts and tensors that make no sense", () => {
    const tensor: ModelTensor = { name: "w", shape: [4, 4], elementBytes: 2, partition: 1, layer: 0 };
    const one = { tp: 1, pp: 1, dp: 1 };
    expect(() => planReshard([tensor], { ...one, tp: 0 }, one)).toThrow("layout.tp is 0");
    expect(() => planReshard([tensor], one, { ...one, pp: 2 })).toThrow("layout.pp is 2");
    expect(() => planReshard([{ ...tensor, partition: 2 }], one, one)).toThrow("w.partition is 2");
    expect(() => planReshard([{ ...tensor, shape: [4, 0] }], one, one)).toThrow("w.shape is 0");
    expect(() => planReshard([tensor], { ...one, fsdp: 0 }, one)).toThrow("layout.fsdp is 0");
    const scalar: ModelTensor = { name: "s", shape: [], elementBytes: 2, partition: null, layer: 0 };
    expect(() => planReshard([scalar], { ...one, fsdp: 2 }, one)).toThrow("dimensions of s is 0");
    expect(() => planRank([tensor], [one, one], 0, [{ ...tensor, shape: [4, 5] }])).toThrow(
      "sources.0 is w [4,5] of 2 bytes",
    );
    expect(() => planRank([tensor], [one, one], 1)).toThrow("rank is 1");
    expect(() => planRank([tensor], [one, { ...one, tp: 0 }], 0)).toThrow("layout.tp is 0");
    expect(() => sectionSizes([tensor], { ...one, tp: 0 })).toThrow("layout.tp is 0");
  });
});
