/** Samples of a module that takes several turns: what is drawn before a drain or a death is not drawn again, and the result is that of a quiet run. */
import type { GenerateContext, Generated, Logger, ModuleResponse } from "@muster/base";
import { taskOf } from "@muster/data";
import { type BegunGroup, fromGroupsBegun, type TrajectoryGroup, toGroupsBegun, wholePart } from "@muster/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createEmbeddedRolloutEngine, defaultModelOf } from "../src/embedded/index.ts";
import { type CollectOptions, collectGroups, type RolloutEngine } from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { clock, quiet, weightsOf } from "./rollout-fixture.ts";

const task = taskOf("addition");
const model = { ...defaultModelOf(task), hidden: 16, ffn: 16, layers: 1, maxContext: 64 };
const [count, groupSize, turns] = [2, 3, 3];

let engine: RolloutEngine;
beforeAll(async () => {
  engine = createEmbeddedRolloutEngine({ model });
  await engine.updateWeights(inlineWeights(5, await weightsOf(model, 2)));
});
afterAll(() => engine.close());

type Generate = RolloutEngine["generate"];
type Asked = Parameters<Generate>[0];

/** The engine, with every request that it is asked. It stands still when it has drawn one token of the request `until`, which `reached` hears of. */
function watched({ until = "", reached = () => {} }: { readonly until?: string; readonly reached?: () => void } = {}) {
  const asked: Asked[number][] = [];
  let soFar: Generated | null = null;
  const generate: Generate = async (requests, signal) => {
    asked.push(...requests);
    const rows = await engine.generate(requests, signal);
    const [last] = rows[idsOf(requests).indexOf(until)] ?? [];
    if (!last) return rows;
    const { responseIds, logprobs } = last;
    soFar = { ...last, responseIds: responseIds.slice(0, 1), logprobs: logprobs.slice(0, 1), finish: "abort" };
    reached();
    return await new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  };
  const own: RolloutEngine = Object.create(engine, {
    generate: { value: generate },
    info: { value: () => engine.info() },
    weightVersion: { value: () => engine.weightVersion() },
    abort: { value: async () => {} },
    drawn: { value: (id: string) => (id === until && soFar ? [soFar] : null) },
  });
  return { own, asked };
}

/** Asks, says a word of its own, and asks again. */
async function converse({ engine: own, prompt }: GenerateContext, word = 1): Promise<ModuleResponse> {
  const [ids, logprobs, mask]: [number[], number[], number[]] = [[], [], []];
  for (let turn = 0; turn < turns; turn++) {
    const promptIds = [...prompt.ids, ...ids];
    const answer = await own.generate({ promptIds, sampling: { maxNewTokens: 3, stopTokenIds: [] } });
    const isLast = turn === turns - 1;
    ids.push(...answer.responseIds, ...(isLast ? [] : [word]));
    logprobs.push(...answer.logprobs, ...(isLast ? [] : [0]));
    mask.push(...answer.logprobs.map(() => 1), ...(isLast ? [] : [0]));
  }
  return { responseIds: ids, logprobs, lossMask: mask };
}

function collect(change: Partial<CollectOptions> = {}, begun: readonly BegunGroup[] = []): Promise<TrajectoryGroup[]> {
  const prompts = Array.from({ length: count }, (_, index) => {
    const earlier = begun.find((group) => group.index === index);
    const prompt = task.trainPrompt({ seed: 1, step: 3, index });
    return { index, attempt: 0, prompt, ...(earlier ? { begun: earlier } : {}) };
  });
  return collectGroups({
    ...{ engine, task, prompts, groupSize, seed: 1, step: 3, version: 5, clock, signal: quiet() },
    reward: { name: "even", score: async ({ responseIds }) => (responseIds[0] ?? 0) % 2 },
    generate: converse,
    sampling: { temperature: 1, maxNewTokens: 12, stopTokenIds: task.stopTokenIds },
    rewardTimeoutMs: 10_000,
    generateTimeoutMs: 10_000,
    ...change,
  });
}

/** Begun groups as another replica reads them. */
const sent = (begun: readonly BegunGroup[]): readonly BegunGroup[] =>
  fromGroupsBegun(toGroupsBegun(0, begun.map(wholePart)));

const whole = (begun: readonly BegunGroup[]): readonly string[] =>
  begun.flatMap(({ index, responses }) =>
    responses.flatMap(({ turn, finish }) => (turn && finish ? [`3.${index}.0.${turn.sample}.${turn.at}`] : [])),
  );

const idsOf = (asked: Asked): readonly string[] => asked.map(({ requestId }) => requestId);

/** All turns of all samples. */
const everyTurn = Array.from({ length: count * groupSize * turns }, (_, i) => {
  const [group, sample] = [Math.floor(i / (groupSize * turns)), Math.floor(i / turns) % groupSize];
  return `3.${group}.0.${sample}.${i % turns}`;
});

/** Collects until the engine has drawn a token of this turn of the first sample; then it is to hand back. */
async function drained(turn: number) {
  const handBack = new AbortController();
  const begun: BegunGroup[] = [];
  const { own } = watched({ until: `3.0.0.0.${turn}`, reached: () => handBack.abort(new Error("leaving")) });
  const take = (groups: readonly BegunGroup[]): void => void begun.push(...groups);
  const finished = await collect({ engine: own, handBack: { signal: handBack.signal, take } });
  return { finished, begun: sent(begun) };
}

describe("a module's samples that are handed back", () => {
  it.each([0, 1, 2])("go on elsewhere behind the turns that were drawn, here in turn %i", async (turn) => {
    const expected = await collect();
    const { finished, begun } = await drained(turn);
    expect(begun).toHaveLength(count - finished.length);
    expect(whole(begun).length).toBeGreaterThanOrEqual(turn);
    const { own, asked } = watched();
    expect(await collect({ engine: own }, begun)).toEqual(expected);
    expect([...idsOf(asked), ...whole(begun)].sort()).toEqual(everyTurn.toSorted());
    // What was drawn of a turn that was not whole is not drawn again, either.
    expect(asked.some((one) => (one.begun?.[0]?.responseIds.length ?? 0) > 0)).toBe(true);
  });

  it("are handed back with nothing when nothing was drawn", async () => {
    const handBack = new AbortController();
    handBack.abort(new Error("leaving"));
    const begun: BegunGroup[] = [];
    const take = (groups: readonly BegunGroup[]): void => void begun.push(...groups);
    expect(await collect({ handBack: { signal: handBack.signal, take } })).toEqual([]);
    expect(begun.map(({ index }) => index)).toEqual([0, 1]);
    const { own, asked } = watched();
    expect(await collect({ engine: own }, sent(begun))).toEqual(await collect());
    expect(idsOf(asked)).toHaveLength(everyTurn.length);
  });
});

describe("a module's turns that are saved while it goes on", () => {
  it("are not drawn again after a death", async () => {
    const death = new AbortController();
    const saves = new Map<number, BegunGroup>();
    const { own: dying } = watched({ until: "3.0.0.0.2" });
    const take = (groups: readonly BegunGroup[]): boolean => {
      for (const group of sent(groups)) saves.set(group.index, group);
      const isReached = saves.get(0)?.responses.some(({ turn, finish }) => turn?.at === 2 && finish === null);
      if (isReached) death.abort(new Error("killed"));
      return true;
    };
    const after = (ms: number, run: () => void) => (ms === 1 ? clearing(setImmediate(run)) : () => {});
    const change = { clock: { now: () => 0, after }, signal: death.signal, save: { everyMs: 1, take } };
    await expect(collect({ ...change, engine: dying })).rejects.toThrow("killed");
    const saved = [...saves.values()];
    expect(whole(saved)).toEqual(expect.arrayContaining(["3.0.0.0.0", "3.0.0.0.1"]));
    const { own, asked } = watched();
    expect(await collect({ engine: own }, saved)).toEqual(await collect());
    expect([...idsOf(asked), ...whole(saved)].sort()).toEqual(everyTurn.toSorted());
  });

  it("are left out from the turn on that asks something else, which is said", async () => {
    const { begun } = await drained(2);
    const said: object[] = [];
    const logger = { warn: (fields: object) => void said.push(fields), info() {}, debug() {}, error() {} };
    const other = (context: GenerateContext) => converse(context, context.sample === 0 ? 2 : 1);
    const { own, asked } = watched();
    const change = { generate: other, engine: own, logger: logger as unknown as Logger };
    expect(await collect(change, begun)).toEqual(await collect({ generate: other }));
    const isKept = (id: string): boolean => !/^3\.\d\.0\.0\.[12]$/.test(id) && whole(begun).includes(id);
    expect([...idsOf(asked)].sort()).toEqual(everyTurn.filter((id) => !isKept(id)).toSorted());
    expect(said).toContainEqual({ requestId: "3.0.0.0", turn: 1 });
  });

  it("are drawn anew where newer weights drew them, and where no module generates any more", async () => {
    const { begun } = await drained(1);
    const newer = begun.map((group) => ({
      ...group,
      responses: group.responses.map((one) => ({ ...one, segments: one.segments.map((s) => ({ ...s, version: 6 })) })),
    }));
    const { own, asked } = watched();
    expect(await collect({ engine: own }, newer)).toEqual(await collect());
    expect(idsOf(asked)).toHaveLength(everyTurn.length);
    expect(await collect({ generate: null }, begun)).toEqual(await collect({ generate: null }));
  });
});

function clearing(next: NodeJS.Immediate): () => void {
  return () => clearImmediate(next);
}
