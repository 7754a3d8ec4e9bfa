/** The figures that people who train look at: those of the engine and of a batch, each beside one that is computed another way. */
import { groupIdOf, type Trajectory, type TrajectoryGroup } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { createEmbeddedPolicyEngine } from "../src/embedded/index.ts";
import { batchFiguresOf, inlineState, referenceKlOf, type TrainSample } from "../src/index.ts";
import { gradientIn } from "../src/internal.ts";
import { reference } from "./reference/llama.ts";
import { openRollout, quiet, requestsOf, tiny } from "./rollout-fixture.ts";

describe("loss, approximate KL, clipped tokens, entropy and the gap of log-probabilities", () => {
  it.each([1, 0.7])(
    "are those of a double-precision reference when the weights have moved, at %d",
    async (temperature) => {
      const policy = createEmbeddedPolicyEngine({ model: tiny });
      await policy.initialize({ kind: "seed", seed: 3 });
      const sampling = { temperature, maxNewTokens: 12, stopTokenIds: [0] };
      const requests = requestsOf(8, { sampling });
      const rows = await (await openRollout()).generate(requests, quiet());
      const batch = rows.flatMap((row, i) =>
        row.map(({ responseIds, logprobs }, k): TrainSample => {
          const promptIds = requests[i]!.promptIds;
          const tokens = Int32Array.of(...promptIds, ...responseIds);
          return { tokens, promptLength: promptIds.length, logprobs, advantage: ((i + k) % 3) - 0.9 };
        }),
      );
      const before = new Float32Array(policy.state().weights.slice().buffer);
      const moved = before.map((value, i) => value + 0.05 * Math.sin(i));
      const optimizer = policy.state().optimizer.slice();
      await policy.restore(inlineState({ weights: new Uint8Array(moved.buffer), optimizer }));
      policy.begin();
      const bounds = { clipLow: 0.2, clipHigh: 0.28 };
      const out = new Float32Array(policy.info().gradientElements);
      const stats = await policy.accumulate(batch, {
        normalizer: 100,
        ...bounds,
        temperature,
        out: gradientIn(out),
        signal: quiet(),
      });

      const none = { logprob: () => 0, entropy: () => 0 };
      const tokens = batch.map((sample) => [...sample.tokens]);
      const { logprobs, entropies } = reference(tiny, moved, tokens, none, temperature);
      const expected = { tokens: 0, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, logprobGapSum: 0 };
      let largest = 0;
      batch.forEach((sample, row) => {
        sample.logprobs.forEach((sampled, t) => {
          const at = sample.promptLength + t - 1;
          const change = logprobs[row]![at]! - sampled;
          const ratio = Math.exp(change);
          const kept = Math.min(Math.max(ratio, 1 - bounds.clipLow), 1 + bounds.clipHigh);
          const surrogate = Math.min(ratio * sample.advantage, kept * sample.advantage);
          expected.tokens += 1;
          expected.clipped += surrogate < ratio * sample.advantage ? 1 : 0;
          expected.klSum += ratio - 1 - change;
          expected.entropySum += entropies[row]![at]!;
          expected.lossSum -= surrogate;
          expected.logprobGapSum += Math.abs(change);
          largest = Math.max(largest, Math.abs(change));
        });
      });
      expect(stats).toMatchObject({ tokens: expected.tokens, clipped: expected.clipped });
      expect(stats.clipped).toBeGreaterThan(0);
      expect(stats.klSum).toBeGreaterThan(0.01);
      for (const name of ["klSum", "entropySum", "lossSum", "logprobGapSum"] as const)
        expect(stats[name]! / stats.tokens).toBeCloseTo(expected[name] / expected.tokens, 4);
      expect(stats.logprobGapMax).toBeCloseTo(largest, 4);
      expect(largest).toBeGreaterThan(0.1);
      expect(stats).not.toHaveProperty("referenceKlSum");
    },
  );
});

const trajectory = (reward: number, length: number, status: Trajectory["status"] = "completed"): Trajectory => ({
  tokens: new Int32Array(2 + length),
  promptLength: 2,
  logprobs: new Float32Array(length),
  lossMask: new Uint8Array(length).fill(1),
  reward,
  status,
  segments: [{ version: 1, from: 0, to: length }],
});
const group = (index: number, trajectories: readonly Trajectory[]): TrajectoryGroup => ({
  ...{ groupId: groupIdOf(3, index), step: 3, index, attempt: 0 },
  trajectories,
});

describe("the figures of a batch", () => {
  const groups = [
    group(2, [trajectory(1, 4), trajectory(0, 9, "truncated"), trajectory(5, 0, "aborted")]),
    group(0, [trajectory(0.5, 3), trajectory(0.5, 12, "truncated")]),
    group(1, [trajectory(1, 4), trajectory(0, 0, "aborted")]),
  ];

  it("count what teaches, and nothing of what was aborted or stands alone", () => {
    expect(batchFiguresOf(groups)).toEqual({
      ...{ groups: 3, evenGroups: 2, trajectories: 4, truncated: 2, longest: 12 },
      ...{ rewardSquares: 0.5, rewardLeast: 0, rewardMost: 1 },
    });
  });

  it("do not depend on the order in which groups came, to the last bit", () => {
    const many = Array.from({ length: 40 }, (_, i) =>
      group(
        i,
        [0.1, 0.2, 0.3].map((r) => trajectory(r * i + 1e6, i)),
      ),
    );
    const figures = batchFiguresOf(many);
    expect(batchFiguresOf([...many].reverse())).toEqual(figures);
    const rewards = many.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward - 1e6));
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    const squares = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0);
    expect(figures.rewardSquares / squares).toBeCloseTo(1, 6);
  });

  it("have the KL of what was drawn to a reference policy, of the tokens in the loss of what teaches", () => {
    const told = new Map<Trajectory, Float32Array>();
    let [sum, tokens] = [0, 0];
    const apart = groups.map((one, g) => ({
      ...one,
      trajectories: one.trajectories.map((each, k) => {
        const response = each.logprobs.map((_, t) => -1 - 0.125 * t - 0.25 * k);
        const mask = each.lossMask.map((_, t) => (t === 1 ? 0 : 1));
        const drawn = { ...each, logprobs: response, lossMask: mask };
        const expected = response.map((logprob, t) => logprob + (t % 3) - 1.5);
        if (each.status !== "aborted") told.set(drawn, expected);
        response.forEach((logprob, t) => {
          if (t === 1 || g === 2 || each.status === "aborted") return;
          const ratio = Math.exp(expected[t]! - logprob);
          sum += ratio - 1 - Math.log(ratio);
          tokens += 1;
        });
        return drawn;
      }),
    }));
    const divergence = referenceKlOf(apart, told);
    expect(divergence).toBeCloseTo(sum / tokens, 9);
    expect(referenceKlOf([...apart].reverse(), told)).toBe(divergence);
    expect(referenceKlOf([], told)).toBe(0);
  });

  it("are none of nothing", () => {
    expect(batchFiguresOf([])).toEqual({
      ...{ groups: 0, evenGroups: 0, trajectories: 0, truncated: 0, longest: 0 },
      ...{ rewardSquares: 0, rewardLeast: 0, rewardMost: 0 },
    });
  });
});
