import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GenerateContext, ModuleResponse } from "@muster/base";
import { taskOf } from "@muster/data";
import { failureDefaults, fromGroupsBatch, type TrajectoryGroup, toGroupsBatch } from "@muster/protocol";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createEmbeddedRolloutEngine, defaultModelOf } from "../src/embedded/index.ts";
import {
  advantagesOf,
  type CollectOptions,
  claimTrajectoryFault,
  collectGroups,
  type GenerateFunction,
  loadGenerate,
  loadReward,
  type Reward,
  type RolloutEngine,
} from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { clock, quiet, weightsOf } from "./rollout-fixture.ts";

const task = taskOf("addition");
const model = { ...defaultModelOf(task), hidden: 16, ffn: 16, layers: 1 };
const even: Reward = { name: "even", score: async ({ responseIds }) => (responseIds[0] ?? 0) % 2 };

let engine: RolloutEngine;
beforeAll(async () => {
  engine = createEmbeddedRolloutEngine({ model });
  await engine.updateWeights(inlineWeights(5, await weightsOf(model, 2)));
});
afterAll(() => engine.close());

function collect(change: Partial<CollectOptions> & { readonly count?: number } = {}): Promise<TrajectoryGroup[]> {
  const { count = 2, ...rest } = change;
  const prompts = Array.from({ length: count }, (_, index) => ({
    index,
    attempt: 0,
    prompt: task.trainPrompt({ seed: 1, step: 3, index }),
  }));
  return collectGroups({
    engine,
    reward: even,
    task,
    prompts,
    groupSize: 4,
    sampling: { temperature: 1, maxNewTokens: 6, stopTokenIds: task.stopTokenIds },
    seed: 1,
    step: 3,
    version: 5,
    rewardTimeoutMs: 10_000,
    generateTimeoutMs: 10_000,
    clock,
    signal: quiet(),
    ...rest,
  });
}

const oneTurn = async ({ engine: own, prompt }: GenerateContext): Promise<ModuleResponse> => {
  const { responseIds, logprobs, finish } = await own.generate({ promptIds: prompt.ids });
  return { responseIds, logprobs, finish: finish === "length" ? "length" : "stop" };
};

const keyOf = ({ groupId, sample }: GenerateContext): string => `${groupId}/${sample}`;
/** One turn, but what `faults` says for some samples. */
const faulty =
  (faults: Readonly<Record<string, (context: GenerateContext) => unknown>>): GenerateFunction =>
  async (context) =>
    (await (faults[keyOf(context)] ?? oneTurn)(context)) as ModuleResponse;

const all = (groups: readonly TrajectoryGroup[]) => groups.flatMap(({ trajectories }) => trajectories);
const abortedIn = (groups: readonly TrajectoryGroup[]): number[] =>
  all(groups).flatMap(({ status }, i) => (status === "aborted" ? [i] : []));
const errorOf = (groups: readonly TrajectoryGroup[], at: number) => all(groups)[at]?.error;

class Refused extends Error {
  override readonly name = "Refused";
}

const badAnswers: Readonly<Record<string, (context: GenerateContext) => unknown>> = {
  throws: () => {
    throw new Refused("no");
  },
  rejects: () => Promise.reject(new Refused("later")),
  nothing: () => undefined,
  "a number": () => 7,
  "a list": (context) => oneTurn(context).then((response) => [response]),
  "no log-probs": (context) => oneTurn(context).then(({ responseIds }) => ({ responseIds })),
  "a NaN log-prob": (context) =>
    oneTurn(context).then(({ responseIds }) => ({ responseIds, logprobs: Array.from(responseIds, () => Number.NaN) })),
  "half a token": () => ({ responseIds: [0.5], logprobs: [-1] }),
  "a token that is none": () => ({ responseIds: [999], logprobs: [-1] }),
  "too many tokens": () => ({ responseIds: new Array(40).fill(1), logprobs: new Array(40).fill(-1) }),
  "an empty response": () => ({ responseIds: [], logprobs: [] }),
  "a request that the engine refuses": ({ engine: own }) => own.generate({ promptIds: [] }),
};

describe("a generate function", () => {
  it("that asks for one turn changes no byte", async () => {
    expect(await collect({ generate: oneTurn })).toEqual(await collect());
  });

  it("gets one engine call for the turns of all samples, not one call each", async () => {
    let calls = 0;
    const counting: RolloutEngine = Object.create(engine, {
      generate: {
        value: (...given: Parameters<RolloutEngine["generate"]>) => {
          calls += 1;
          return engine.generate(...given);
        },
      },
      info: { value: () => engine.info() },
      weightVersion: { value: () => engine.weightVersion() },
      abort: { value: () => Promise.resolve() },
    });
    await collect({ engine: counting, generate: oneTurn, count: 8 });
    expect(calls).toBeLessThanOrEqual(2);
  });

  it("may take several turns, with the words of others masked out of the loss", async () => {
    const twoTurns: GenerateFunction = async ({ engine: own, prompt }) => {
      const sampling = { maxNewTokens: 2 };
      const first = await own.generate({ promptIds: prompt.ids, sampling });
      const said = [1];
      const second = await own.generate({ promptIds: [...prompt.ids, ...first.responseIds, ...said], sampling });
      return {
        responseIds: [...first.responseIds, ...said, ...second.responseIds],
        logprobs: [...first.logprobs, 0, ...second.logprobs],
        lossMask: [...first.logprobs.map(() => 1), 0, ...second.logprobs.map(() => 1)],
      };
    };
    const groups = await collect({ generate: twoTurns });
    expect(abortedIn(groups)).toEqual([]);
    expect(fromGroupsBatch(toGroupsBatch(groups))).toEqual(groups);
    for (const { lossMask } of all(groups)) expect(lossMask.filter((bit) => bit === 0)).toHaveLength(1);
    expect(await collect({ generate: twoTurns })).toEqual(groups);
  });

  it.each(Object.keys(badAnswers))("that gives %s aborts its sample only, with the original error", async (name) => {
    const groups = await collect({ generate: faulty({ "3.1/2": badAnswers[name]! }) });
    expect(abortedIn(groups)).toEqual([6]);
    expect(errorOf(groups, 6)).toMatchObject({ kind: "user_error", stack: expect.stringContaining("at ") });
  });

  it("that throws says its class, message and stack", async () => {
    const groups = await collect({ generate: faulty({ "3.0/0": badAnswers.throws! }) });
    expect(errorOf(groups, 0)).toMatchObject({ name: "Refused", message: "no" });
    expect(errorOf(groups, 0)?.stack).toContain("generate-module.test.ts");
  });

  it("that hangs is aborted at its deadline, told so, and its engine handle is of no use any more", async () => {
    let late: Promise<unknown> = Promise.resolve();
    const hang = ({ engine: own, prompt, signal }: GenerateContext): Promise<never> =>
      new Promise(() =>
        signal.addEventListener("abort", () => {
          late = own.generate({ promptIds: prompt.ids }).catch((error: Error) => error.message);
        }),
      );
    const groups = await collect({ generate: faulty({ "3.0/3": hang }), generateTimeoutMs: 200 });
    expect(abortedIn(groups)).toEqual([3]);
    expect(errorOf(groups, 3)).toMatchObject({ kind: "timeout", name: "MUSTER_ERR_TRAJECTORY_TIMEOUT" });
    expect(await late).toContain("settled already");
  });

  it("that leaves work behind fails with the fault of that work while it is open", async () => {
    const detached = (): Promise<never> => {
      // What the process's handler of unhandled rejections does, in the very context in which it is called.
      setTimeout(() => expect(claimTrajectoryFault(new Refused("nobody waits for me"))).toBe(true), 1);
      return new Promise(() => {});
    };
    const groups = await collect({ generate: faulty({ "3.0/1": detached }) });
    expect(abortedIn(groups)).toEqual([1]);
    expect(errorOf(groups, 1)).toMatchObject({ name: "Refused", message: "nobody waits for me" });
    expect(claimTrajectoryFault(new Error("the process's own"))).toBe(false);
  });

  it("cannot change a response after it has given it", async () => {
    const kept: ModuleResponse[] = [];
    const keeps: GenerateFunction = async (context) => {
      const response = await oneTurn(context);
      kept.push(response);
      return response;
    };
    const groups = await collect({ generate: keeps });
    const before = structuredClone(groups);
    for (const { responseIds } of kept) (responseIds as Int32Array).fill(9);
    expect(groups).toEqual(before);
  });

  it("that meets a failure of the engine ends the whole call, however it wraps the error", async () => {
    const broken: RolloutEngine = Object.create(engine, {
      generate: { value: () => Promise.reject(new Error("device lost")) },
      info: { value: () => engine.info() },
      weightVersion: { value: () => engine.weightVersion() },
      abort: { value: () => Promise.resolve() },
    });
    const wraps: GenerateFunction = (context) =>
      oneTurn(context).catch((cause: unknown) => {
        throw new Refused("wrapped", { cause });
      });
    await expect(collect({ engine: broken, generate: wraps })).rejects.toThrow();
  });

  it("with a declared fan-out gives that many trajectories, and as many placeholders when it fails", async () => {
    const both: GenerateFunction = async (context) => [await oneTurn(context), await oneTurn(context)];
    const mixed: GenerateFunction = (context) => (context.sample === 1 ? oneTurn(context) : both(context));
    const groups = await collect({ generate: mixed, fanOut: 2 });
    expect(groups.map(({ trajectories }) => trajectories.length)).toEqual([8, 8]);
    expect(abortedIn(groups)).toEqual([2, 3, 10, 11]);
    expect(errorOf(groups, 2)?.message).toContain("rollout.fan_out = 2");
    const none = await collect({ generate: faulty({}), fanOut: 2 });
    expect(none.map(({ trajectories }) => trajectories.length)).toEqual([8, 8]);
    expect(abortedIn(none)).toHaveLength(16);
  });

  it("is tried again after a failed transport, and draws the same response then", async () => {
    const failed = new Set<string>();
    const flaky: GenerateFunction = async (context) => {
      if (failed.has(keyOf(context))) return await oneTurn(context);
      failed.add(keyOf(context));
      throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    };
    const transport = { ...failureDefaults.transport, backoffMs: 1 };
    expect(await collect({ generate: flaky, failure: { ...failureDefaults, transport } })).toEqual(await collect());
  });

  it("is not tried again after an error of its own", async () => {
    let calls = 0;
    const throws = (): never => {
      calls += 1;
      throw new TypeError("deterministic");
    };
    await collect({ generate: faulty({ "3.0/0": throws }) });
    expect(calls).toBe(1);
  });
});

describe("failures of some samples", () => {
  it("leave every byte of the others as they are, whichever they are and however they fail", async () => {
    const whole = await collect({ count: 3 });
    const faults = fc.dictionary(
      fc.constantFrom(...[0, 1, 2].flatMap((g) => [0, 1, 2, 3].map((sample) => `3.${g}/${sample}`))),
      fc.constantFrom(...Object.keys(badAnswers)),
    );
    await fc.assert(
      fc.asyncProperty(faults, async (chosen) => {
        const table = Object.fromEntries(Object.entries(chosen).map(([key, name]) => [key, badAnswers[name]!]));
        const groups = await collect({ count: 3, generate: faulty(table) });
        const bad = Object.keys(chosen).map((key) => 4 * Number(key[2]) + Number(key[4]));
        expect(abortedIn(groups)).toEqual(bad.sort((a, b) => a - b));
        for (const [i, trajectory] of all(groups).entries())
          if (!bad.includes(i)) expect(trajectory).toEqual(all(whole)[i]);
      }),
      { numRuns: 25 },
    );
  });

  it("shift nobody's advantage", () => {
    const rewards = [1, 0, 1, 0];
    const [first, second] = advantagesOf([...rewards, 0, 0], [true, true, true, true, false, false]);
    expect([first, second]).toEqual(advantagesOf(rewards, [true, true, true, true]).slice(0, 2));
  });
});

describe("a module of a job", () => {
  let folder: string;
  let modules = 0;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "muster-module-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };

  it("gives a reward by default or by name", async () => {
    const input = { prompt: task.evalPrompt(0), responseIds: Int32Array.of(1), responseText: "1", finish: "stop" };
    const byDefault = await loadReward(write("a.mjs", "export default ({ responseText }) => Number(responseText);"));
    expect(await byDefault.score(input, quiet())).toBe(1);
    const byName = await loadReward(write("b.mjs", "export const reward = async () => 0.5;"));
    expect(await byName.score(input, quiet())).toBe(0.5);
  });

  it("that cannot be read, is broken or exports nothing is refused with its path", async () => {
    await expect(loadReward(join(folder, "gone.mjs"))).rejects.toThrow(/gone\.mjs can not be loaded/);
    await expect(loadGenerate(write("c.mjs", "export default 7;"))).rejects.toThrow(/exports number/);
    await expect(loadGenerate(write("d.mjs", "throw new Error('broken');"))).rejects.toThrow(/broken/);
  });

  it.each([
    ['"0.7"', 'returned the text "0.7"; it must return a number'],
    ["undefined", "returned nothing (undefined); it must return a number"],
    ["[1]", "returned a list of 1"],
    ["({ score: 1 })", "returned a value of type object"],
    ["1 / 0", "returned Infinity; it must return a number, finite"],
  ])("whose reward returns %s is named by its file, with the value and its type", async (value, says) => {
    const path = write(`reward-${modules++}.mjs`, `export default () => ${value};`);
    const groups = await collect({ reward: await loadReward(path) });
    expect(errorOf(groups, 0)?.message).toContain(`reward "${path}" ${says}`);
  });

  it.each([
    ["7", "returned a response = 7; it must be an object with responseIds and logprobs"],
    ["[]", "returned a list of 0; with rollout.fan_out = 1 it must return one for each sample"],
    ["({ responseIds: [1] })", "returned logprobs = nothing (undefined); it must be a list of numbers"],
    [
      "({ responseIds: [1], logprobs: new BigInt64Array(1) })",
      "returned logprobs[0] = a value of type bigint; it must be a list of numbers",
    ],
    [
      '({ responseIds: [1, "2"], logprobs: [0, 0] })',
      'returned responseIds[1] = the text "2"; it must be a list of whole',
    ],
    ['({ responseIds: [1], logprobs: [0], finish: "eos" })', 'returned finish = the text "eos"; it must be "stop" or'],
    ["({ responseIds: [1, 2], logprobs: [0] })", "returned an invalid response: logprobs has 1 numbers for 2 tokens"],
    ["({ responseIds: [99], logprobs: [0] })", "returned an invalid response: responseIds has token 99, outside of"],
    ["({ responseIds: [], logprobs: [] })", "returned an invalid response: responseIds is empty"],
  ])("whose generate function returns %s is named by its file, with field and value", async (value, says) => {
    const path = write(`generate-${modules++}.mjs`, `export default async () => ${value};`);
    const groups = await collect({ generate: await loadGenerate(path) });
    expect(errorOf(groups, 0)?.message).toContain(`the generate function of ${path} ${says}`);
  });

  it("in TypeScript needs a Node that reads it, and the error says which", async () => {
    const path = write("e.ts", "export default (): number => 1;");
    if ("typescript" in process.features && process.features.typescript) expect(await loadReward(path)).toBeDefined();
    else await expect(loadReward(path)).rejects.toThrow(/Node 22\.18 or newer/);
  });
});
