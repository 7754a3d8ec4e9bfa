/** What a commit says of its step: sums of the votes of the attempt that is committed, divided once, and nothing that does not fit. */
import type { BatchFigures, StepStats } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { planStepOutcome } from "../src/controller/step/plan-step.ts";
import { bodiesOf, groupsOf, memberOf, planWith, receiptOf, stepping, voteFor } from "./states.ts";

const batch: BatchFigures = {
  ...{ groups: 4, evenGroups: 1, trajectories: 8, truncated: 2, longest: 4 },
  ...{ rewardSquares: 2, rewardLeast: -1, rewardMost: 1, lr: 0.001 },
};
const stats = (patch: Partial<StepStats> = {}): StepStats => ({
  ...{ tokens: 10, clipped: 1, klSum: 0.5, entropySum: 8, lossSum: -1, gradNorm: 0.25, computeMs: 30, reduceMs: 10 },
  batch,
  ...patch,
});
const vote = (own: StepStats | null, flavour = "a") => voteFor(4, flavour, { stats: own });

const committedOf = (state: ReturnType<typeof stepping>) =>
  bodiesOf(planStepOutcome(state)?.effects ?? [], "step.committed")[0];

describe("a commit", () => {
  it("ends the doubt about the weights beyond the step at which the job went back, and no sooner", () => {
    const after = (wentBackAt: number | null) =>
      planStepOutcome(stepping({ p0: vote(stats()), p1: vote(stats()) }, { patch: { wentBackAt } }))?.state.wentBackAt;
    expect([3, 4, 5, null].map(after)).toEqual([null, 4, 5, null]);
  });

  it("adds up what its members computed, and divides it once", () => {
    const other = stats({
      tokens: 30,
      clipped: 5,
      klSum: 1.5,
      entropySum: 12,
      lossSum: 3,
      computeMs: 50,
      reduceMs: 5,
      gradNorm: 9,
    });
    expect(committedOf(stepping({ p0: vote(stats()), p1: vote(other) }))).toMatchObject({
      ...{ clipFraction: 6 / 40, approxKl: 2 / 40, entropy: 20 / 40, loss: 2 / 40, gradNorm: 0.25 },
      ...{ computeMs: 50, reduceMs: 10, members: 2, tokens: 20, reward: 0.5 },
      ...{ lr: 0.001, lengthMean: 20 / 8, lengthMax: 4, truncated: 0.25, evenGroups: 0.25 },
      ...{ rewardSpread: 0.5, rewardLeast: -1, rewardMost: 1, trainTokensPerS: (20 / 60) * 1000 },
    });
  });

  it("says how far log-probabilities were apart, and the KL to a reference, where all of its members do", () => {
    const gap = (tokens: number, sum: number, max: number) => ({ logprobGap: { tokens, sum, max } });
    const one = stats({ ...gap(4, 0.5, 0.25), referenceKlSum: 1 });
    const other = stats({ ...gap(6, 2, 1.5), tokens: 30, referenceKlSum: 3 });
    const both = committedOf(stepping({ p0: vote(one), p1: vote(other) }));
    expect(both).toMatchObject({ logprobGap: 0.25, logprobGapMax: 1.5, klReference: 0.1 });
    const idle = stats({ ...gap(0, 0, 0), tokens: 0, referenceKlSum: 0 });
    expect(committedOf(stepping({ p0: vote(one), p1: vote(idle) }))).toMatchObject({
      ...{ logprobGap: 0.125, logprobGapMax: 0.25, klReference: 0.1 },
    });
    for (const silent of [
      committedOf(stepping({ p0: vote(one), p1: vote(stats()) })),
      committedOf(stepping({ p0: vote(idle), p1: vote(idle) })),
      committedOf(stepping({ p0: vote(null), p1: vote(null) })),
    ])
      for (const absent of ["logprobGap", "logprobGapMax", "klReference"]) expect(silent).not.toHaveProperty(absent);
    const drawn = vote(stats({ batch: { ...batch, referenceKl: 0.375 } }));
    expect(committedOf(stepping({ p0: drawn, p1: drawn }))?.klReference).toBe(0.375);
  });

  it("says the loss on held-out rows where all of its members measured their part of them", () => {
    const part = (tokens: number, lossSum: number) => vote(stats({ heldOut: { tokens, lossSum } }));
    expect(committedOf(stepping({ p0: part(4, 3), p1: part(6, 2) }))?.heldOutLoss).toBe(0.5);
    expect(committedOf(stepping({ p0: part(4, 3), p1: part(0, 0) }))?.heldOutLoss).toBe(0.75);
    for (const silent of [
      committedOf(stepping({ p0: part(4, 3), p1: vote(stats()) })),
      committedOf(stepping({ p0: part(0, 0), p1: part(0, 0) })),
    ])
      expect(silent).not.toHaveProperty("heldOutLoss");
  });

  it("says nothing of work of which its members say nothing, and divides by no less than one token", () => {
    const silent = committedOf(stepping({ p0: vote(null), p1: vote(null) }));
    expect(silent).toMatchObject({
      ...{ computeMs: 0, reduceMs: 0, gradNorm: 0, members: 0 },
      clipFraction: 0,
      staleness: 0,
    });
    for (const absent of ["trainTokensPerS", "sampleTokensPerS", "lr", "coverage"])
      expect(silent).not.toHaveProperty(absent);
    const empty = stats({ tokens: 0, clipped: 1, computeMs: 1, reduceMs: 0 });
    const body = committedOf(stepping({ p0: vote(empty), p1: vote(null) }));
    expect(body).toMatchObject({ clipFraction: 1, loss: -1, members: 1, trainTokensPerS: 20_000 });
  });

  it("says how old the oldest of its groups is, and which share of them is there", () => {
    const state = stepping({ p0: vote(stats()), p1: vote(stats()) });
    const groups = groupsOf(4, 4);
    const receipts = { ...groups.receipts, 1: receiptOf(4, 1, { version: 1 }) };
    expect(committedOf({ ...state, groups: { 4: { ...groups, receipts } } })?.staleness).toBe(2);
    const { 3: _, ...three } = groups.receipts;
    const short = { ...state, groups: { 4: { ...groups, receipts: three, quarantined: [3] } } };
    expect(committedOf({ ...short, ledger: { ...state.ledger, quarantined: 2 } })?.coverage).toBe(0.75);
  });

  it("says what the parts of rewards were, and how many names are left out", () => {
    const form = { name: "form", count: 4, mean: 0.5, squares: 1, least: 0, most: 1 };
    const own = vote(stats({ batch: { ...batch, components: [form], componentsMore: 2 } }));
    expect(committedOf(stepping({ p0: own, p1: own }))).toMatchObject({
      components: [{ name: "form", count: 4, mean: 0.5, spread: 0.5, least: 0, most: 1 }],
      componentsMore: 2,
    });
    expect(committedOf(stepping({ p0: vote(stats()), p1: vote(stats()) }))).not.toHaveProperty("components");
  });

  it("has no figures of rewards and of sampling where answers are given", () => {
    const own = vote(stats({ lossSum: 4, logprobGap: { tokens: 10, sum: 1, max: 1 } }));
    const body = committedOf(stepping({ p0: own, p1: own }, { plan: planWith({ isSupervised: true }) }));
    expect(body).toMatchObject({ loss: 0.4, entropy: 0.8, gradNorm: 0.25, lr: 0.001, lengthMax: 4, tokens: 20 });
    for (const absent of [
      "reward",
      "rewardSpread",
      "rewardLeast",
      "rewardMost",
      "evenGroups",
      "approxKl",
      "logprobGap",
    ])
      expect(body).not.toHaveProperty(absent);
  });

  it("divides the figures of a batch by its trajectories, of which there is one, or none that was completed", () => {
    const of = (completed: number) => {
      const groups = groupsOf(4, 1, 1);
      const receipts = { 0: receiptOf(4, 0, { completed, tokens: 6 }) };
      const one = { ...batch, groups: 1, trajectories: completed, truncated: 1, longest: 6, rewardSquares: 9 };
      const plan = planWith({ groupsPerStep: 1, groupSize: 2 });
      const own = vote(stats({ batch: one }));
      const state = stepping({ p0: own, p1: own }, { plan });
      return committedOf({ ...state, groups: { 4: { ...groups, receipts } } });
    };
    const figures = { lengthMean: 6, truncated: 1, rewardSpread: 3, reward: 1, evenGroups: 1 };
    expect([of(1), of(0)]).toMatchObject([figures, figures]);
  });

  it("says the figures of a batch only as the winners counted it, where that fits the receipts", () => {
    const wrong = { ...batch, trajectories: 9 };
    const loser = vote(stats({ batch: { ...batch, lr: 7 }, gradNorm: 9 }), "b");
    const members = ["p0", "p1", "p2", "r0"];
    const fits = committedOf(stepping({ p0: loser, p1: vote(stats()), p2: vote(stats()) }, { members }));
    expect(fits).toMatchObject({ lr: 0.001, gradNorm: 0.25 });
    const alone = committedOf(stepping({ p0: vote(stats({ batch: wrong })), p1: vote(stats()) }));
    expect(alone).toMatchObject({ lr: 0.001, lengthMax: 4 });
    const nobody = committedOf(stepping({ p0: vote(stats({ batch: wrong })), p1: vote(stats({ batch: wrong })) }));
    expect(nobody).toMatchObject({ loss: -0.1 });
    expect(nobody).not.toHaveProperty("lr");
    expect(nobody).not.toHaveProperty("truncated");
  });

  it("names what each replica held, who is furthest behind first, and no more than 64 of them", () => {
    const held = (version: number) => ({ held: { lineage: 0, version } });
    const members = Object.fromEntries(
      ["p0", "p1"]
        .map((id, i) => [id, memberOf(id, i + 1, held(3))] as const)
        .concat(
          Array.from({ length: 100 }, (_, i) => [
            `r${i}`,
            memberOf(`r${i}`, i + 3, i === 7 ? { held: { lineage: 1, version: 9 } } : held(i === 9 ? 1 : 3)),
          ]),
        ),
    );
    const state = stepping({ p0: vote(stats()), p1: vote(stats()) }, { patch: { members } });
    const body = committedOf({ ...state, ledger: { admitted: 8, trained: 0, aborted: 0, quarantined: 0 } });
    expect(body?.held).toHaveLength(64);
    expect(body?.held?.slice(0, 3)).toEqual([
      { id: "r7", version: null },
      { id: "r9", version: 1 },
      { id: "p0", version: 3 },
    ]);
  });

  it("names who holds nothing before who holds the first version, and equals by their ids", () => {
    const first = { held: { lineage: 0, version: 0 } };
    const nothing = { held: null };
    const rows = [
      memberOf("p2", 1, nothing),
      memberOf("p1", 2, first),
      memberOf("p0", 3, first),
      memberOf("r0", 4, nothing),
    ];
    const members = Object.fromEntries(rows.map((row) => [row.id, row]));
    const body = committedOf(stepping({ p0: vote(stats()), p1: vote(stats()) }, { patch: { members } }));
    expect(body?.held?.map(({ id }) => id)).toEqual(["p2", "r0", "p0", "p1"]);
  });

  it("says how fast all samplers together are, by what they usually need", () => {
    const pace = (id: string, msPerGroup: number) => ({
      incarnation: memberOf(id, 3).incarnation,
      msPerGroup,
      steps: [],
      isReported: false,
    });
    const state = stepping({ p0: vote(stats()), p1: vote(stats()) }, { plan: planWith() });
    const paces = { r0: pace("r0", 100), gone: pace("gone", 1) };
    // One group in 100 ms, or in half of one, of 5 tokens each.
    expect(committedOf({ ...state, paces: { r0: pace("r0", 0.5) } })?.sampleTokensPerS).toBeCloseTo(10_000, 6);
    expect(committedOf({ ...state, paces: { r0: pace("r0", 0) } })).not.toHaveProperty("sampleTokensPerS");
    const single = { ...state, groups: { 4: { ...groupsOf(4, 1, 1), quarantined: [1, 2, 3] } } };
    expect(committedOf({ ...single, paces })?.sampleTokensPerS).toBeCloseTo(50, 9);
    expect(committedOf({ ...state, paces })?.sampleTokensPerS).toBeCloseTo(50, 9);
    expect(committedOf(state)).not.toHaveProperty("sampleTokensPerS");
  });
});
