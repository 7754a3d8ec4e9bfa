/** Each algorithm's loss and gradient beside the formula of its paper, in double precision, whose gradient is a difference of losses. */
import { randomOf } from "@muster/base";
import { type Training, type Trajectory, type TrajectoryGroup, trainingDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { lossOf, planMinibatches, responseLoss } from "../src/index.ts";
import {
  cispoLoss,
  type Drawn,
  dapoLoss,
  drGrpoLoss,
  extendedLoss,
  grpoOfThePaper,
  gspoLoss,
  type Loss,
  penalised,
  reinforcePlusPlusLoss,
  rlooLoss,
  supervisedLoss,
} from "./reference/policy-losses.ts";

const random = randomOf(20);
const between = (low: number, high: number): number => low + ((high - low) * random.below(1e6)) / 1e6;
/** As sampled: single precision. */
const rows = (length: number, of: () => number): number[] => Array.from({ length }, () => Math.fround(of()));

/** A response whose weights have moved twice since it was drawn. */
function drawn(reward: number, length: number, change: Partial<Drawn> = {}): Drawn {
  const sampled = rows(length, () => between(-3, -0.1));
  const moved = (by: number) => sampled.map((logprob) => Math.fround(Math.min(-0.01, logprob + between(-by, by))));
  return {
    ...{ reward, valid: true, drawn: sampled, before: moved(0.9), anchor: moved(0.5) },
    ...{ entropy: rows(length, () => between(0, 2)), inLoss: sampled.map(() => true), ...change },
  };
}

const groups: readonly (readonly Drawn[])[] = [
  [drawn(1, 4), drawn(0, 7), drawn(0.5, 1), drawn(0, 3)],
  [drawn(1, 5), drawn(1, 2), drawn(0, 6, { inLoss: [true, false, false, true, true, false] })],
  [drawn(0.25, 2), drawn(-1, 5), drawn(7, 4, { valid: false }), drawn(2, 3)],
  // Nothing to learn from but by what is added to a surrogate.
  [drawn(1, 3), drawn(1, 2)],
];
/** Log-probabilities after an update. */
const now = groups.map((group) =>
  group.map(({ before }) => before.map((logprob) => Math.min(-0.01, logprob + between(-0.6, 0.6)))),
);

const idOf = (g: number, i: number): number => 10 * g + i;

function trajectoryOf({ reward, valid, drawn: logprobs, inLoss }: Drawn, id: number): Trajectory {
  return {
    tokens: Int32Array.of(id, 1, ...logprobs.map(() => 2)),
    promptLength: 2,
    logprobs: Float32Array.from(logprobs),
    lossMask: Uint8Array.from(inLoss, Number),
    reward,
    status: valid ? "completed" : "aborted",
    segments: [{ version: 0, from: 0, to: logprobs.length }],
  };
}

/** What the code under test says: the loss, and its derivatives by group, response and token. */
function computed(training: Partial<Training>, clip: { clipLow: number; clipHigh: number }) {
  const spec = { ...trainingDefaults, ...training };
  const reference = new Map<Trajectory, readonly number[]>();
  const given = groups.map((group, index): TrajectoryGroup => {
    const trajectories = group.map((response, i) => trajectoryOf(response, idOf(index, i)));
    trajectories.forEach((trajectory, i) => {
      reference.set(trajectory, group[i]!.anchor);
    });
    return { groupId: `1.${index}`, step: 1, index, attempt: 0, trajectories };
  });
  const options = { seed: 1, step: 1, minibatches: 1, microShards: 3, training: spec, maxNewTokens: 8, reference };
  const [batch] = planMinibatches(given, options);
  const slopes = now.map((group) => group.map((response) => response.map(() => 0)));
  const entropySlopes = structuredClone(slopes);
  let loss = 0;
  for (const sample of batch!.shards.flat()) {
    const [g, i] = [Math.floor(sample.tokens[0]! / 10), sample.tokens[0]! % 10];
    const { before, anchor, entropy } = groups[g]![i]!;
    const { advantage, advantages, lossMask: mask, weight = 1 } = sample;
    const response = {
      ...{ logprobs: now[g]![i]!, sampled: sample.logprobs, reference: anchor, entropies: entropy },
      ...{ before: spec.staleCorrection === "off" ? undefined : before, exp: Math.exp },
      ...{ advantage, advantages, mask, weight, normalizer: batch!.normalizer, clip },
    };
    responseLoss(response, lossOf(spec), (t, { value, byLogprob, byEntropy }) => {
      loss += (value * weight) / batch!.normalizer;
      slopes[g]![i]![t] = byLogprob;
      entropySlopes[g]![i]![t] = byEntropy;
    });
  }
  return { loss, slopes, entropySlopes };
}

/** Derivatives of a paper's loss, by central differences. */
const differences = (loss: Loss, of = groups): number[][][] =>
  now.map((group, g) =>
    group.map((response, i) =>
      response.map((_, t) => {
        const at = (by: number): number => {
          const moved = now.map((rs, a) =>
            rs.map((r, b) => r.map((x, c) => (a === g && b === i && c === t ? x + by : x))),
          );
          return loss(of, moved, now);
        };
        return (at(1e-6) - at(-1e-6)) / 2e-6;
      }),
    ),
  );

function expectEqual(ours: readonly (readonly (readonly number[])[])[], theirs: typeof ours): void {
  const [a, b] = [ours.flat(2), theirs.flat(2)];
  expect(b.some((slope) => Math.abs(slope) > 1e-3)).toBe(true);
  a.forEach((slope, k) => {
    expect(Math.abs(slope - b[k]!)).toBeLessThan(1e-6);
  });
}

const symmetric = { clipLow: 0.2, clipHigh: 0.2 };
const raised = { clipLow: 0.2, clipHigh: 0.28 };

describe("the loss and the gradient of", () => {
  it.each<[string, Partial<Training>, typeof raised, Loss]>([
    ["grpo, over tokens", {}, raised, dapoLoss],
    ["grpo as in its paper", { aggregation: "sequence" }, raised, grpoOfThePaper],
    ["dapo", { algorithm: "dapo" }, raised, dapoLoss],
    ["dr_grpo", { algorithm: "dr_grpo", aggregation: "budget" }, symmetric, drGrpoLoss(8)],
    ["gspo", { algorithm: "gspo", aggregation: "sequence" }, { clipLow: 0.1, clipHigh: 0.15 }, gspoLoss(0.1, 0.15)],
    ["cispo", { algorithm: "cispo" }, { clipLow: 1, clipHigh: 0.3 }, cispoLoss],
    ["rloo", { algorithm: "rloo", aggregation: "sum" }, symmetric, rlooLoss],
    ["sft", { algorithm: "sft" }, symmetric, supervisedLoss],
    ["reinforce++", { algorithm: "reinforce++" }, symmetric, reinforcePlusPlusLoss(0)],
    [
      "reinforce++ with a divergence in the reward",
      { algorithm: "reinforce++", klCoefficient: 0.3, klIn: "reward", klEstimator: "k1" },
      symmetric,
      reinforcePlusPlusLoss(0.3),
    ],
  ])("%s equal the formula", (_, training, clip, loss) => {
    const ours = computed(training, clip);
    expect(ours.loss).toBeCloseTo(loss(groups, now, now), 6);
    expectEqual(ours.slopes, differences(loss));
  });

  const k = {
    k1: (d: number) => d,
    k2: (d: number) => (d * d) / 2,
    k3: (d: number) => Math.exp(-d) - 1 + d,
  };
  const estimators = ["k1", "k2", "k3"] as const;

  it.each(estimators)("a divergence by %s in the loss equal the formula", (klEstimator) => {
    const divergence = (ours: number, anchor: number): number => k[klEstimator](ours - anchor);
    const loss = extendedLoss({ beta: 0.4, divergence, bonus: 0, stale: () => 1 });
    // Nothing is stale: the step began where the responses were drawn.
    const fresh = groups.map((group) => group.map((response) => ({ ...response, before: response.drawn })));
    const ours = computed({ klCoefficient: 0.4, klEstimator }, raised);
    expect(ours.loss).toBeCloseTo(loss(fresh, now, now), 6);
    expectEqual(ours.slopes, differences(loss, fresh));
  });

  it.each(estimators)("a divergence by %s in the reward equal the formula", (klEstimator) => {
    const ours = computed({ klCoefficient: 0.4, klEstimator, klIn: "reward" }, raised);
    const rewarded = penalised(groups, 0.4, k[klEstimator]);
    expect(ours.loss).toBeCloseTo(dapoLoss(rewarded, now, now), 6);
    expectEqual(ours.slopes, differences(dapoLoss, rewarded));
  });

  it.each<[Training["staleCorrection"], (ratio: number) => number]>([
    ["truncate", (ratio) => Math.min(ratio, 1.4)],
    ["mask", (ratio) => (ratio >= 1 / 1.4 && ratio <= 1.4 ? ratio : 0)],
  ])("stale tokens (%s) with a bonus for entropy equal the formula", (staleCorrection, stale) => {
    const loss = extendedLoss({ beta: 0, divergence: () => 0, bonus: 0.05, stale });
    const ours = computed({ staleCorrection, staleCap: 1.4, entropyCoefficient: 0.05 }, raised);
    expect(ours.loss).toBeCloseTo(loss(groups, now, now), 6);
    expectEqual(ours.slopes, differences(loss));
    const tokens = groups.flat().flatMap(({ valid, inLoss }) => (valid ? inLoss.filter(Boolean) : [])).length;
    for (const slope of new Set(ours.entropySlopes.flat(2).filter((each) => each !== 0)))
      expect(slope).toBeCloseTo(-0.05 / tokens, 12);
  });

  it("stale responses of gspo have one weight each", () => {
    const weights = (staleCap: number) =>
      computed({ algorithm: "gspo", staleCorrection: "truncate", staleCap, aggregation: "sequence" }, raised).slopes;
    const [response, unbound] = [groups[0]![0]!, weights(1e6)[0]![0]!];
    const change = response.before.map((logprob, t) => logprob - response.drawn[t]!);
    const ratio = Math.exp(change.reduce((sum, x) => sum + x, 0) / change.length);
    const bound = weights(1);
    response.drawn.forEach((_, t) => {
      expect(bound[0]![0]![t]! / unbound[t]!).toBeCloseTo(Math.min(1, ratio) / ratio, 9);
    });
    expect(new Set(unbound).size).toBe(1);
  });
});
