/** What an algorithm does before a loss: which groups teach, what length costs, how the learning rate goes. */
import { type Training, type Trajectory, type TrajectoryGroup, trainingDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { overlongLoss } from "../src/algorithms/dapo.ts";
import { exponential } from "../src/algorithms/exponential.ts";
import { learningRateAt, planMinibatches } from "../src/index.ts";

const trajectory = (reward: number, length: number, id: number): Trajectory => ({
  tokens: Int32Array.of(id, ...new Array<number>(length).fill(1)),
  promptLength: 1,
  logprobs: new Float32Array(length).fill(-1),
  lossMask: new Uint8Array(length).fill(1),
  reward,
  status: "completed",
  segments: [{ version: 0, from: 0, to: length }],
});
const group = (index: number, rewards: readonly number[], length = 4): TrajectoryGroup => ({
  ...{ groupId: `1.${index}`, step: 1, index, attempt: 0 },
  trajectories: rewards.map((reward) => trajectory(reward, length, index)),
});
const plan = (groups: readonly TrajectoryGroup[], training: Partial<Training>) =>
  planMinibatches(groups, {
    ...{ seed: 1, step: 1, minibatches: 1, microShards: 2, maxNewTokens: 16 },
    training: { ...trainingDefaults, ...training },
  });

describe("dynamic sampling", () => {
  const groups = [group(0, [1, 1]), group(1, [0, 1]), group(2, [0, 0]), group(3, [1, 0]), group(4, [1, 0])];

  it("trains on the first groups that have a spread, whatever order they came in", () => {
    for (const given of [groups, [...groups].reverse()]) {
      const [batch] = plan(given, { trainGroups: 2 });
      expect(new Set(batch!.shards.flat().map(({ tokens }) => tokens[0]))).toEqual(new Set([1, 3]));
      expect(batch!.normalizer).toBe(16);
    }
  });

  it("trains on fewer when no more teach, and on nothing when none does", () => {
    expect(plan(groups, { trainGroups: 5 })[0]!.shards.flat().length).toBe(6);
    expect(plan([group(0, [1, 1])], { trainGroups: 1 })).toEqual([]);
  });

  it("leaves groups without a spread out of reinforce++ too, which alone would learn from them", () => {
    const count = (trainGroups: number) =>
      plan(groups, { trainGroups, algorithm: "reinforce++" })[0]!.shards.flat().length;
    expect([count(0), count(5)]).toEqual([10, 6]);
  });
});

describe("over-long responses", () => {
  it("lose what equation 13 of DAPO says", () => {
    const at = (length: number): number => overlongLoss(length, { longest: 20, buffer: 4 });
    expect([1, 16, 17, 18, 20, 25].map(at)).toEqual([0, 0, 0.25, 0.5, 1, 1]);
    expect(overlongLoss(20, { longest: 20, buffer: 0 })).toBe(0);
  });

  it("teach where their rewards alone would not", () => {
    const mixed = { ...group(0, []), trajectories: [trajectory(1, 4, 0), trajectory(1, 14, 1)] };
    expect(plan([mixed], {})).toEqual([]);
    const [batch] = plan([mixed], { overlongTokens: 4, overlongPenalty: 0.5 });
    const advantages = batch!.shards.flat().map(({ tokens, advantage }) => [tokens[0], Math.sign(advantage)]);
    expect(new Map(advantages as [number, number][])).toEqual(
      new Map([
        [0, 1],
        [1, -1],
      ]),
    );
  });
});

describe("the learning rate", () => {
  const options = { lr: 2, warmupSteps: 4, finalRatio: 0.1, steps: 104 };
  it.each([
    ["linear", 54, 2 * 0.55],
    ["cosine", 29, 2 * (0.1 + (0.9 * (1 + Math.cos(Math.PI / 4))) / 2)],
    ["cosine", 54, 2 * 0.55],
    ["cosine", 90, 2 * (0.1 + (0.9 * (1 + Math.cos(0.86 * Math.PI))) / 2)],
    ["inverse_sqrt", 16, 1],
    ["constant", 100, 2],
  ] as const)("goes %s: at step %d", (schedule, step, rate) => {
    expect(learningRateAt(step, { ...options, schedule })).toBeCloseTo(rate, 10);
  });

  it.each(["linear", "cosine", "inverse_sqrt", "constant"] as const)(
    "of %s begins alike, and ends no lower than it may",
    (schedule) => {
      expect(learningRateAt(2, { ...options, schedule })).toBe(1);
      expect(learningRateAt(4, { ...options, schedule })).toBe(2);
      expect(learningRateAt(104, { ...options, schedule })).toBeGreaterThanOrEqual(0.2 - 1e-12);
      expect(learningRateAt(1e6, { ...options, schedule })).toBeGreaterThanOrEqual(0.2 - 1e-12);
    },
  );
});

it("e to a power, by sums alone, is that of the platform to 14 digits", () => {
  for (let x = -40; x <= 40; x += 0.37) expect(exponential(x) / Math.exp(x)).toBeCloseTo(1, 13);
  expect([exponential(0), exponential(-1e9), exponential(Number.NaN)]).toEqual([1, 0, Number.NaN]);
  expect(Number.isFinite(exponential(1e9))).toBe(true);
});
