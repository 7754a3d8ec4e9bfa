import type { Logger } from "@muster/base";
import { taskOf } from "@muster/data";
import { fromGroupsBatch, type TrajectoryGroup, toGroupsBatch } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { createEmbeddedRolloutEngine, defaultModelOf } from "../src/embedded/index.ts";
import { type CollectOptions, collectGroups, type Generated, type Reward, type RolloutEngine } from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { clock, quiet, weightsOf } from "./rollout-fixture.ts";

const task = taskOf("addition");
const model = { ...defaultModelOf(task), hidden: 16, ffn: 16, layers: 1 };

/** A reward that fails in a chosen way on chosen calls; otherwise 1 for even first tokens. Calls are counted in sample order. */
function rewardThat(failures: Readonly<Record<number, () => Promise<number>>>): Reward {
  let calls = 0;
  return {
    name: "failing",
    score: ({ responseIds }) => failures[calls++]?.() ?? Promise.resolve(responseIds[0]! % 2),
  };
}

async function collect(change: Partial<CollectOptions> & { readonly count?: number }): Promise<TrajectoryGroup[]> {
  const { count = 2, ...rest } = change;
  return collectGroups({
    engine: await openEngine(),
    reward: rewardThat({}),
    task,
    prompts: Array.from({ length: count }, (_, index) => ({
      index,
      attempt: 0,
      prompt: task.trainPrompt({ seed: 1, step: 3, index }),
    })),
    groupSize: 4,
    sampling: { temperature: 1, maxNewTokens: 6, stopTokenIds: task.stopTokenIds },
    seed: 1,
    step: 3,
    version: 5,
    rewardTimeoutMs: 10_000,
    clock,
    signal: quiet(),
    ...rest,
  });
}

async function openEngine(): Promise<RolloutEngine> {
  const engine = createEmbeddedRolloutEngine({ model });
  await engine.updateWeights(inlineWeights(5, await weightsOf(model, 2)));
  return engine;
}

/** The engine, with some of its responses tampered with. */
async function tampered(
  tamper: (generated: Generated, sample: number) => Generated | undefined,
): Promise<RolloutEngine> {
  const engine = await openEngine();
  const generate: RolloutEngine["generate"] = async (requests, signal) => {
    const rows = await engine.generate(requests, signal);
    return rows.map((row) => row.map(tamper).filter((generated) => generated !== undefined));
  };
  return new Proxy(engine, {
    get: (target, key) => {
      const value: unknown = key === "generate" ? generate : Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const statuses = (groups: readonly TrajectoryGroup[]): string[] =>
  groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.status));
const aborted = (groups: readonly TrajectoryGroup[]): number[] =>
  statuses(groups).flatMap((status, i) => (status === "aborted" ? [i] : []));

describe("collecting groups", () => {
  it("gives one group per prompt with consistent trajectories that survive the wire", async () => {
    const groups = await collect({ count: 3 });
    expect(groups.map((group) => [group.groupId, group.trajectories.length])).toEqual([
      ["3.0", 4],
      ["3.1", 4],
      ["3.2", 4],
    ]);
    expect(aborted(groups)).toEqual([]);
    expect(fromGroupsBatch(toGroupsBatch(groups))).toEqual(groups);
    expect(groups[0]!.trajectories[0]!.segments[0]).toMatchObject({ version: 5, from: 0 });
  });

  it("gives a group the same trajectories whatever other groups are collected with it", async () => {
    const together = await collect({ count: 3 });
    const prompts = [{ index: 2, attempt: 0, prompt: task.trainPrompt({ seed: 1, step: 3, index: 2 }) }];
    expect(await collect({ prompts })).toEqual([together[2]]);
  });

  it("of 500 trajectories with failures at 321 and 373 completes 498 and aborts 2 with their root causes", async () => {
    const causes: unknown[] = [];
    const logger = {
      warn: (fields: { error: Error }) => causes.push(fields.error.message),
    } as Partial<Logger> as Logger;
    const groups = await collect({
      count: 125,
      logger,
      reward: rewardThat({
        321: () => Promise.reject(new TypeError("parser choked on 321")),
        373: () => {
          throw new RangeError("thrown at once by 373");
        },
      }),
    });
    expect(aborted(groups)).toEqual([321, 373]);
    expect(statuses(groups).length).toBe(500);
    expect(causes.sort()).toEqual(["parser choked on 321", "thrown at once by 373"]);
    expect(groups[80]!.trajectories[1]).toMatchObject({
      error: {
        kind: "user_error",
        name: "TypeError",
        message: "parser choked on 321",
        stack: expect.stringContaining("at "),
      },
    });
  });

  it("logs the first failures of a call one by one and counts the rest, and keeps a huge error short but whole in its place", async () => {
    const lines: { readonly fields: object; readonly text: string }[] = [];
    const warn = (fields: object, text: string): void => void lines.push({ fields, text });
    const groups = await collect({
      count: 25,
      logger: { warn } as Partial<Logger> as Logger,
      reward: { name: "broken", score: () => Promise.reject(new Error("理".repeat(2_000_000))) },
    });
    expect(lines.filter(({ text }) => text === "trajectory failed")).toHaveLength(16);
    expect(lines.at(-1)).toEqual({ fields: { failures: 100, unlogged: 84 }, text: "more trajectories failed" });
    const { message, stack } = groups[0]!.trajectories[0]!.error!;
    expect(message).toHaveLength(2_000);
    expect(stack).toMatch(/理…\n\s+at /);
  });

  it("says of a failure the frames that are its own: those of Node and of promises differ from run to run", async () => {
    const own = "Error: no\n    at judge (reward.mjs:1:1)";
    const internal = "    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)";
    const settled = "    at async Promise.allSettled (index 3)";
    const error = Object.assign(new Error("no"), { stack: `${own}\n${internal}\n${settled}` });
    const groups = await collect({ reward: rewardThat({ 0: () => Promise.reject(error) }) });
    expect(groups[0]!.trajectories[0]?.error?.stack).toBe(own);
  });

  it("aborts only the trajectory whose reward hangs, at its deadline, and tells the reward to stop", async () => {
    let told = false;
    const inner = rewardThat({});
    let calls = 0;
    const reward: Reward = {
      name: "hanging",
      score: (input, signal) =>
        calls++ === 2
          ? new Promise(() =>
              signal.addEventListener("abort", () => {
                told = true;
              }),
            )
          : inner.score(input, signal),
    };
    const groups = await collect({ reward, rewardTimeoutMs: 30 });
    expect(aborted(groups)).toEqual([2]);
    expect(groups[0]!.trajectories[2]!.error!.message).toContain("did not end within 30 ms");
    expect(told).toBe(true);
  });

  it.each([
    ["NaN", Number.NaN],
    ["Infinity", Number.POSITIVE_INFINITY],
    ["1.7e+308", 1.7e308],
    ['the text "0.5"', "0.5"],
    ["nothing", undefined],
  ])("aborts only the trajectory whose reward is %s", async (shown, value) => {
    const groups = await collect({ reward: rewardThat({ 5: () => Promise.resolve(value as number) }) });
    expect(aborted(groups)).toEqual([5]);
    expect(groups[1]!.trajectories[1]!.error!.message).toContain(`returned ${shown}`);
  });

  it("replaces a failed trajectory by a placeholder that teaches nothing", async () => {
    const groups = await collect({ reward: rewardThat({ 0: () => Promise.reject("a string") }) });
    expect(groups[0]!.trajectories[0]).toEqual({
      tokens: Int32Array.of(0, 0),
      promptLength: 1,
      logprobs: Float32Array.of(0),
      lossMask: Uint8Array.of(0),
      reward: 0,
      status: "aborted",
      segments: [],
      error: { kind: "user_error", name: "NotAnError", message: "a string" },
    });
    expect(fromGroupsBatch(toGroupsBatch(groups))).toEqual(groups);
  });

  it.each<[string, (generated: Generated) => Generated | undefined]>([
    ["logprobs has 0 numbers", (generated) => ({ ...generated, logprobs: new Float32Array(0) })],
    ["logprobs has NaN", (generated) => ({ ...generated, logprobs: generated.logprobs.with(0, Number.NaN) })],
    ["logprobs has 2;", (generated) => ({ ...generated, logprobs: generated.logprobs.with(0, 2) })],
    ["token 99", (generated) => ({ ...generated, responseIds: generated.responseIds.with(0, 99) })],
    ["responseIds is empty", (generated) => ({ ...generated, responseIds: new Int32Array(0) })],
    ["aborted", (generated) => ({ ...generated, finish: "abort" })],
  ])("aborts a trajectory that the engine returned malformed: %s", async (reason, tamper) => {
    const engine = await tampered((generated, sample) => (sample === 1 ? tamper(generated) : generated));
    const groups = await collect({ engine });
    expect(aborted(groups)).toEqual([1, 5]);
    expect(groups[0]!.trajectories[1]!.error!.message).toContain(reason);
  });

  it("aborts a trajectory that the engine did not return", async () => {
    const engine = await tampered((generated, sample) => (sample === 3 ? undefined : generated));
    expect(aborted(await collect({ engine }))).toEqual([3, 7]);
  });

  it("keeps the group size when every member fails", async () => {
    const fail = (): Promise<number> => Promise.reject(new Error("no"));
    const groups = await collect({ count: 1, reward: rewardThat({ 0: fail, 1: fail, 2: fail, 3: fail }) });
    expect(aborted(groups)).toEqual([0, 1, 2, 3]);
  });

  it("stops with the reason when the call is aborted, even if a reward does not listen", async () => {
    const controller = new AbortController();
    const reward: Reward = {
      name: "deaf",
      score: () => {
        controller.abort(new Error("operator said stop"));
        return new Promise(() => {});
      },
    };
    await expect(collect({ reward, signal: controller.signal })).rejects.toThrow("operator said stop");
  });

  it("refuses to start with weights of another version", async () => {
    await expect(collect({ version: 6 })).rejects.toThrow("holds weight version 5, not 6");
  });
});
