/** The figures of a step: what of them may be said, and under which names. */
import { describe, expect, it } from "vitest";
import {
  decodeMessage,
  encodeMessage,
  figureMetricOf,
  figureNameOf,
  figuresOf,
  flawOf,
  stepFigures,
} from "../src/index.ts";
import { sampleMessage } from "./samples.ts";

const voted = sampleMessage("step.voted");
const stats = {
  ...{ tokens: 70, clipped: 2, klSum: 0.5, entropySum: 9.5, lossSum: 0.75, gradNorm: 0.5, computeMs: 1, reduceMs: 1 },
  batch: {
    ...{ groups: 4, evenGroups: 1, trajectories: 15, truncated: 2, longest: 12 },
    ...{ rewardSquares: 3.75, rewardLeast: 0, rewardMost: 1, lr: 0.001 },
  },
};
const form = { name: "form", count: 15, mean: 0.5, squares: 1, least: 0, most: 1 };
const flawWith = (patch: object, batch: object = {}) =>
  flawOf("step.voted", { ...voted.body, stats: { ...stats, ...patch, batch: { ...stats.batch, ...batch } } } as never);

describe("a vote", () => {
  it("carries the figures of its batch", () => {
    const message = { ...voted, body: { ...voted.body, stats } } as typeof voted;
    expect(decodeMessage(encodeMessage(message))).toEqual(message);
    expect(flawWith({})).toBeNull();
    expect(
      flawWith({ logprobGap: { tokens: 70, sum: 1, max: 1e15 }, referenceKlSum: -1e-9 }, { referenceKl: 2 }),
    ).toBeNull();
    expect(flawWith({}, { components: Array.from({ length: 32 }, () => form), componentsMore: 8 })).toBeNull();
  });

  it.each([
    [{ klSum: Number.NaN }, {}],
    [{ lossSum: Number.POSITIVE_INFINITY }, {}],
    [{ entropySum: 2e15 }, {}],
    [{ tokens: -1 }, {}],
    [{ clipped: 71 }, {}],
    [{ logprobGap: { tokens: 71, sum: 1, max: 1 } }, {}],
    [{ logprobGap: { tokens: 70, sum: -1, max: 1 } }, {}],
    [{ logprobGap: { tokens: 70, sum: 1, max: 2e15 } }, {}],
    [{ logprobGap: { tokens: 70, sum: 1 } }, {}],
    [{ referenceKlSum: Number.NaN }, {}],
    [{}, { referenceKl: 2e15 }],
    [{}, { evenGroups: 5 }],
    [{}, { truncated: 16 }],
    [{}, { rewardSquares: -1 }],
    [{}, { rewardLeast: 2 }],
    [{}, { lr: Number.NaN }],
    [{}, { longest: 1.5 }],
    [{}, { more: 1 }],
    [{}, { components: [] }],
    [{}, { components: [{ ...form, count: 16 }] }],
    [{}, { components: [{ ...form, least: 2 }] }],
    [{}, { components: [{ ...form, name: "a\nb" }] }],
    [{}, { components: Array.from({ length: 33 }, () => form) }],
  ])("with %o and a batch with %o is none", (patch, batch) => {
    expect(flawWith(patch, batch)).not.toBeNull();
  });
});

describe("the table of figures", () => {
  const committed = sampleMessage("step.committed");

  it("has a name for each that nothing else has, in lines and on the metrics page", () => {
    const names = stepFigures.map(({ field }) => figureNameOf(field));
    expect(new Set(names).size).toBe(stepFigures.length);
    expect(names).toContain("approx_kl");
    expect(names).toContain("train_tokens_per_s");
    for (const { field } of stepFigures) expect(figureMetricOf(field)).toMatch(/^muster_train_[a-z][a-z_]*$/);
  });

  it("reads a commit, also one of a program that did not count a batch", () => {
    if (committed.kind !== "step.committed") throw new Error("the sample is of another kind");
    const known = figuresOf(committed.body).map(({ field }) => field);
    expect(known).toContain("approxKl");
    expect(known).not.toContain("lr");
    const more = figuresOf({ ...committed.body, lr: 0, lengthMax: 3 });
    expect(more.find(({ field }) => field === "lr")?.value).toBe(0);
  });
});
