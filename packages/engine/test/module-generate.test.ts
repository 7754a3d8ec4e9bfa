/** Generate functions in processes of their own: the same bytes as beside the engine, and turns that outlive their process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@muster/base";
import { taskOf } from "@muster/data";
import {
  type BegunGroup,
  fromGroupsBegun,
  type Trajectory,
  type TrajectoryGroup,
  toGroupsBegun,
  wholePart,
} from "@muster/protocol";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { createEmbeddedRolloutEngine, defaultModelOf } from "../src/embedded/index.ts";
import {
  type CollectOptions,
  collectGroups,
  type GenerateFunction,
  loadGenerate,
  openModuleGenerate,
  type RolloutEngine,
} from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { clock, moduleConfig, quiet, weightsOf } from "./rollout-fixture.ts";

vi.setConfig({ testTimeout: 30_000 });

const task = taskOf("addition");
const model = { ...defaultModelOf(task), hidden: 16, ffn: 16, layers: 1, maxContext: 64 };

let engine: RolloutEngine;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "muster-module-generate-"));
  engine = createEmbeddedRolloutEngine({ model });
  await engine.updateWeights(inlineWeights(5, await weightsOf(model, 2)));
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const opened: GenerateFunction[] = [];
afterEach(async () => {
  for (const generate of opened.splice(0)) await generate.close?.();
});

/** Three turns with a word of its own between them, chosen at random, by way of its text. `before` runs before each turn. */
const converses = (before = ""): string => `
  import { existsSync, writeFileSync } from "node:fs";
  export async function generate({ engine, prompt, groupId, sample, random, task, signal }) {
    const key = groupId + "/" + sample;
    const [ids, logprobs, mask] = [[], [], []];
    for (let turn = 0; turn < 3; turn++) {
      ${before}
      const answer = await engine.generate({ promptIds: [...prompt.ids, ...ids], sampling: { maxNewTokens: 3, stopTokenIds: [] } });
      const said = turn === 2 ? [] : [...task.encode(task.decode(Int32Array.of(1 + random.below(9))))];
      ids.push(...answer.responseIds, ...said);
      logprobs.push(...answer.logprobs, ...said.map(() => 0));
      mask.push(...answer.logprobs.map(() => 1), ...said.map(() => 0));
    }
    return { responseIds: ids, logprobs, lossMask: mask, reward: { reward: 0.1, components: { b: 1, a: 2 }, metadata: { key } } };
  }`;

let modules = 0;
function moduleOf(code: string): string {
  const path = join(folder, `generate-${modules++}.mjs`);
  writeFileSync(path, code);
  return path;
}

async function inProcess(code: string, generateMs = 10_000): Promise<GenerateFunction> {
  const config = moduleConfig({ generateMs });
  const generate = await openModuleGenerate(moduleOf(code), { config, env: {}, logger: silentLogger });
  opened.push(generate);
  return generate;
}

function collect(change: Partial<CollectOptions> = {}, begun: readonly BegunGroup[] = []): Promise<TrajectoryGroup[]> {
  const prompts = [0, 1, 2].map((index) => {
    const earlier = begun.find((group) => group.index === index);
    const prompt = task.trainPrompt({ seed: 1, step: 3, index });
    return { index, attempt: 0, prompt, ...(earlier ? { begun: earlier } : {}) };
  });
  return collectGroups({
    ...{ engine, task, prompts, groupSize: 4, seed: 1, step: 3, version: 5, clock, signal: quiet() },
    reward: { name: "even", score: async ({ responseIds }) => (responseIds[0] ?? 0) % 2 },
    sampling: { temperature: 1, maxNewTokens: 12, stopTokenIds: task.stopTokenIds },
    ...{ rewardTimeoutMs: 10_000, generateTimeoutMs: 10_000 },
    ...change,
  });
}

/** What the same code gives beside the engine. */
const expected = async () => await collect({ generate: await loadGenerate(moduleOf(converses())) });

const bySample = (groups: readonly TrajectoryGroup[]): readonly (readonly [string, Trajectory])[] =>
  groups.flatMap(({ groupId, trajectories }) => trajectories.map((one, at) => [`${groupId}/${at}`, one] as const));

/** Tells all samples but one from those of a quiet run, and gives back the error of that one. */
async function errorAmongGood(groups: readonly TrajectoryGroup[], bad: string) {
  const quietOnes = new Map(bySample(await expected()));
  for (const [key, trajectory] of bySample(groups))
    if (key !== bad) expect(trajectory, key).toEqual(quietOnes.get(key));
  return new Map(bySample(groups)).get(bad)?.error;
}

/** The engine, with each request that it is asked. */
function watched() {
  const asked: string[] = [];
  const generate: RolloutEngine["generate"] = async (requests, signal) => {
    asked.push(...requests.map(({ requestId }) => requestId));
    return await engine.generate(requests, signal);
  };
  const own: RolloutEngine = Object.create(engine, {
    generate: { value: generate },
    info: { value: () => engine.info() },
    weightVersion: { value: () => engine.weightVersion() },
    abort: { value: async () => {} },
    drawn: { value: () => null },
  });
  return { own, asked };
}

describe("a generate function in a process of its own", () => {
  it("gives the bytes that it gives beside the engine: tokens, log-probabilities, masks, random words and rewards", async () => {
    expect(await collect({ generate: await inProcess(converses()) })).toEqual(await expected());
  });

  it("that ends its process in the middle costs that sample, and no turn of another is drawn twice", async () => {
    const { own, asked } = watched();
    const generate = await inProcess(converses(`if (key === "3.1/2" && turn === 1) process.exit(9);`));
    const error = await errorAmongGood(await collect({ generate, engine: own }), "3.1/2");
    expect(error).toMatchObject({ kind: "user_error", name: "MUSTER_ERR_MODULE_ENDED" });
    expect(error?.message).toMatch(/generate-\d+\.mjs is gone: it ended with exit code 9/);
    const whole = asked.filter((id) => id.endsWith(".0"));
    expect(new Set(whole).size).toBe(12);
  });

  it("that loops without end costs that sample, within its time", async () => {
    const generate = await inProcess(converses(`if (key === "3.2/0" && turn === 2) for (;;);`), 2_000);
    const error = await errorAmongGood(await collect({ generate }), "3.2/0");
    expect(error).toMatchObject({ kind: "timeout" });
    expect(error?.message).toContain("without giving way");
  });

  it("that throws says its class, message and stack, and one that asks for nonsense hears what the engine says", async () => {
    const code = converses(`
      if (key === "3.0/1") throw new RangeError("no room for " + key);
      if (key === "3.0/2") await engine.generate({ promptIds: [] });`);
    const errors = new Map(
      bySample(await collect({ generate: await inProcess(code) })).map(([key, one]) => [key, one.error]),
    );
    expect(errors.get("3.0/1")).toMatchObject({ name: "RangeError", message: "no room for 3.0/1" });
    expect(errors.get("3.0/1")?.stack).toMatch(/generate-\d+\.mjs:\d+/);
    expect(errors.get("3.0/2")).toMatchObject({ name: "MUSTER_ERR_ENGINE_REQUEST_INVALID" });
    expect([...errors.values()].filter(Boolean)).toHaveLength(2);
  });

  it("that meets a failure of the engine ends the whole call, however it wraps the error", async () => {
    const lost = new Error("device lost");
    const broken: RolloutEngine = Object.create(engine, {
      generate: { value: () => Promise.reject(lost) },
      info: { value: () => engine.info() },
      weightVersion: { value: () => engine.weightVersion() },
      abort: { value: async () => {} },
    });
    const code = `export default async ({ engine, prompt }) => {
      try { await engine.generate({ promptIds: prompt.ids }) } catch (cause) { throw new Error("wrapped", { cause }) } }`;
    await expect(collect({ engine: broken, generate: await inProcess(code) })).rejects.toThrow("wrapped");
  });

  it("may end a turn by what is drawn so far", async () => {
    let drawn = 1;
    const aborted = new Set<string>();
    const part = { logprobs: new Float32Array(0), finish: "abort" as const, versionAtStart: 5, versionAtEnd: 5 };
    const generate: RolloutEngine["generate"] = async (requests, signal) => {
      const rows = await engine.generate(requests, signal);
      await vi.waitFor(() => expect(requests.filter(({ requestId }) => !aborted.has(requestId))).toEqual([]), 10_000);
      return rows.map((row) => row.map((one) => ({ ...one, finish: "abort" as const })));
    };
    const slow: RolloutEngine = Object.create(engine, {
      generate: { value: generate },
      info: { value: () => engine.info() },
      weightVersion: { value: () => 5 },
      abort: { value: async ([id]: [string]) => void aborted.add(id) },
      drawn: { value: () => [{ ...part, responseIds: Int32Array.from({ length: drawn++ }, () => 3) }] },
    });
    const code = `export default async ({ engine, prompt }) => {
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids, isOver: ({ responseIds }) => responseIds.length >= 4 });
      return { responseIds, logprobs, finish: finish === "abort" ? "stop" : "length" };
    };`;
    const groups = await collect({ engine: slow, generate: await inProcess(code) });
    expect(bySample(groups).map(([, { status }]) => status)).toEqual(Array(12).fill("completed"));
  });
});

describe("what a module had drawn", () => {
  it("before its sampler is told to leave is not drawn again elsewhere", async () => {
    const handBack = new AbortController();
    const begun: BegunGroup[] = [];
    const take = (groups: readonly BegunGroup[]): void => void begun.push(...groups);
    const { own, asked } = watched();
    const stalls = await inProcess(converses(`if (turn === 2) await new Promise(() => {});`));
    const leaving = collect({ generate: stalls, engine: own, handBack: { signal: handBack.signal, take } });
    await vi.waitFor(() => expect(asked).toHaveLength(24), { timeout: 10_000 });
    // The turns are whole a moment after they were asked for.
    await engine.generate([], quiet());
    handBack.abort(new Error("leaving"));
    expect(await leaving).toEqual([]);
    const sent = fromGroupsBegun(toGroupsBegun(0, begun.map(wholePart)));
    const { own: next, asked: askedNext } = watched();
    const generate = await inProcess(converses());
    expect(await collect({ generate, engine: next }, sent)).toEqual(await expected());
    const kept = sent.flatMap(({ responses }) => responses.filter(({ finish }) => finish !== null));
    expect(askedNext.length + kept.length).toBe(36);
    expect(kept.length).toBeGreaterThan(12);
  });
});
