/** The loss on held-out rows: the same whoever measures which of them, and no reason to end a step. */
import { MusterError, type Prompt, silentLogger } from "@muster/base";
import { taskOf } from "@muster/data";
import type { AccumulateOptions, PolicyEngine, TrainSample } from "@muster/engine";
import { type JobConfig, type StepStats, type TrajectoryGroup, trainingDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { computeStep } from "../src/policy/compute-step.ts";

const dates = taskOf("dates");
const sft = { ...trainingDefaults, algorithm: "sft" } as const;
const config = {
  ...{ seed: 1, steps: 10, batch: { groupsPerStep: 24, groupSize: 1, minibatches: 1, microShards: 8 } },
  ...{ loss: { clipLow: 0.2, clipHigh: 0.2 }, sampling: { temperature: 1, maxNewTokens: 12 }, training: sft },
  ...{ optimizer: { lr: 0.5, lrWarmupSteps: 5, lrFinalRatio: 1 }, timing: { collectiveMs: 1000 } },
  evaluation: { everySteps: 4, prompts: 0, lossRows: 37 },
} as unknown as JobConfig;

const groups = Array.from({ length: 24 }, (_, index): TrajectoryGroup => {
  const one = { tokens: new Int32Array(6), promptLength: 2, logprobs: new Float32Array(4) };
  const rest = { lossMask: new Uint8Array(4).fill(1), reward: 0, status: "completed" as const };
  return { groupId: `4.${index}`, step: 4, index, attempt: 0, trajectories: [{ ...one, ...rest, segments: [] }] };
});

interface Pass {
  readonly samples: readonly TrainSample[];
  readonly options: AccumulateOptions;
  /** Updates before it. */
  readonly updates: number;
}

interface Case {
  readonly rank?: number;
  readonly worldSize?: number;
  readonly step?: number;
  readonly patch?: object;
  readonly finite?: boolean;
  readonly evalPrompt?: (row: number) => Prompt;
}

/** One rank of a step, on an engine whose loss follows from the tokens. */
async function measured(wanted: Case = {}): Promise<{ stats: StepStats; seen: readonly Pass[]; parts: number }> {
  const { rank = 0, worldSize = 1, step = 4, patch = {}, finite = true, evalPrompt = dates.evalPrompt } = wanted;
  const seen: Pass[] = [];
  let [updates, parts] = [0, 0];
  const engine = {
    info: () => ({ gradientElements: 1 }),
    begin: () => {},
    accumulate: async (samples: readonly TrainSample[], options: AccumulateOptions) => {
      seen.push({ samples, options, updates });
      const tokens = samples.reduce((sum, { logprobs }) => sum + logprobs.length, 0);
      const lossSum = samples.reduce((sum, own) => sum + own.tokens.reduce((all, id) => all + id / 3, 0), 0);
      return { ...{ tokens, clipped: 0, klSum: 0, entropySum: 0, lossSum } };
    },
    stage: async () => {
      updates += 1;
      return { gradNorm: 0.5, finite };
    },
  } as unknown as PolicyEngine;
  const mesh = { rank, worldSize, shard: () => new Float32Array(1), reduce: async () => new Float32Array(1) } as never;
  const onShard = (): void => {
    parts += 1;
  };
  const { stats } = await computeStep({
    ...{ engine, mesh, config: { ...config, ...patch }, step, groups, nextOp: () => 1, onShard },
    ...{ clock: { now: () => 0, after: () => () => {} }, signal: new AbortController().signal },
    heldOut: { task: { ...dates, evalPrompt }, logger: silentLogger },
  });
  return { stats, seen: seen.filter((each) => each.updates > 0), parts };
}

const textOf = ({ tokens }: TrainSample): string => dates.decode(tokens);

describe("the loss on held-out rows", () => {
  it("is of each row once, with its answer and its end, under the weights that the step made", async () => {
    const { stats, seen } = await measured();
    const texts = seen.flatMap(({ samples }) => samples.map(textOf));
    const rows = Array.from({ length: 37 }, (_, row) => dates.evalPrompt(row));
    expect([...texts].sort()).toEqual(rows.map(({ text, answer }) => `${text}${answer}$`).sort());
    for (const { samples } of seen)
      for (const { tokens, promptLength, logprobs } of samples) {
        expect(dates.decode(tokens.subarray(0, promptLength)).endsWith("=")).toBe(true);
        expect(logprobs).toEqual(new Float32Array(tokens.length - promptLength));
      }
    expect(stats.heldOut?.tokens).toBe(seen.reduce((sum, { options }) => sum + options.normalizer, 0));
    // The engine has room for as many as a micro-shard of training has.
    expect(Math.max(...seen.map(({ samples }) => samples.length))).toBe(3);
    expect(seen[0]?.options.loss).toMatchObject({ algorithm: "sft" });
  });

  it("adds up to the same, to the last bit, however many ranks there are, more than shards too", async () => {
    const sums = await Promise.all(
      [1, 2, 3, 8, 11].map(async (worldSize) => {
        const ranks = Array.from({ length: worldSize }, (_, rank) => measured({ rank, worldSize }));
        const parts = (await Promise.all(ranks)).flatMap(({ stats }) => stats.heldOut ?? []);
        expect(parts).toHaveLength(worldSize);
        return [...parts]
          .reverse()
          .reduce((sum, own) => ({ tokens: sum.tokens + own.tokens, lossSum: sum.lossSum + own.lossSum }));
      }),
    );
    for (const sum of sums) expect(sum).toEqual(sums[0]);
  });

  it("writes to micro-shards of its own rank alone, and says that it goes on", async () => {
    const [one, other] = await Promise.all([0, 1].map((rank) => measured({ rank, worldSize: 2 })));
    const shardsOf = (run: typeof one): readonly number[] => [
      ...new Set(run?.seen.map(({ options }) => options.shard ?? -1)),
    ];
    expect([...shardsOf(one), ...shardsOf(other)].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const without = await measured({ worldSize: 2, step: 5 });
    expect(one!.parts - without.parts).toBe(one!.seen.length);
  });

  it.each<[string, Case]>([
    ["a step after which none is due", { step: 5 }],
    ["a step whose weights are not taken", { finite: false }],
    ["a job that learns from rewards", { patch: { training: trainingDefaults } }],
    ["a job that wants none", { patch: { evaluation: { everySteps: 4, prompts: 0 } } }],
  ])("is not measured of %s", async (_, wanted) => {
    const { stats, seen } = await measured(wanted);
    expect([stats.heldOut, seen]).toEqual([undefined, []]);
  });

  it("is measured after the last step, also where there are no others", async () => {
    const patch = { evaluation: { everySteps: 0, prompts: 0, lossRows: 2 } };
    expect((await measured({ step: 10, patch })).stats.heldOut?.tokens).toBeGreaterThan(0);
    expect((await measured({ step: 8, patch })).stats.heldOut).toBeUndefined();
  });

  it("leaves out a row that makes no prompt, and is not said where rows can not be read", async () => {
    const failing = (code: string) => (row: number) => {
      if (row === 5) throw new MusterError(code, "no", { retryable: false, params: {} });
      return dates.evalPrompt(row);
    };
    const { stats, seen } = await measured({ evalPrompt: failing("MUSTER_ERR_PROMPT_INVALID") });
    expect(seen.flatMap(({ samples }) => samples)).toHaveLength(36);
    expect(stats.heldOut?.tokens).toBeGreaterThan(0);
    const unread = await measured({ evalPrompt: failing("MUSTER_ERR_PROMPTS_UNREADABLE") });
    expect(unread.stats).not.toHaveProperty("heldOut");
    expect(unread.stats.tokens).toBe(96);
  });
});
