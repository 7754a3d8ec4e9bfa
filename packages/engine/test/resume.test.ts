/** Responses that were begun and interrupted go on with the bits of those that never were (semantics 6.5, S17). */
import type { Clock } from "@muster/base";
import { taskOf } from "@muster/data";
import { type BegunGroup, fromGroupsBegun, toGroupsBegun, wholePart } from "@muster/protocol";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createEmbeddedRolloutEngine, defaultModelOf } from "../src/embedded/index.ts";
import { type CollectOptions, collectGroups, type RolloutEngine } from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { quiet, weightsOf } from "./rollout-fixture.ts";

const task = taskOf("dates");
const model = { ...defaultModelOf(task), hidden: 16, ffn: 16, layers: 1 };
const clock: Clock = { now: () => performance.now(), after: () => () => {} };
const sampling = { temperature: 1, maxNewTokens: 12, stopTokenIds: task.stopTokenIds };

let engine: RolloutEngine;
beforeAll(async () => {
  engine = createEmbeddedRolloutEngine({ model, rows: 6 });
  await engine.updateWeights(inlineWeights(5, await weightsOf(model, 2)));
});
afterAll(() => engine.close());

const promptOf = (index: number) => task.trainPrompt({ seed: 1, step: 3, index });
const options = (change: Partial<CollectOptions> = {}): CollectOptions => ({
  engine,
  reward: { name: "even", isBounded: true, score: async ({ responseIds }) => (responseIds[0] ?? 0) % 2 },
  task,
  prompts: [0, 1, 2].map((index) => ({ index, attempt: 0, prompt: promptOf(index) })),
  groupSize: 4,
  sampling,
  seed: 1,
  step: 3,
  version: 5,
  rewardTimeoutMs: 1_000,
  clock,
  signal: quiet(),
  ...change,
});

describe("a response that was begun", () => {
  it("goes on with the tokens and log-probs of one that was never interrupted, wherever it was cut", async () => {
    const request = { requestId: "r", promptIds: promptOf(0).ids, n: 4, sampling, seed: 77 };
    const [whole = []] = await engine.generate([request], quiet());
    const cuts = fc.array(fc.nat(12), { minLength: 4, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(cuts, async (lengths) => {
        const begun = whole.map(({ responseIds, logprobs, finish }, i) => {
          const length = Math.min(lengths[i] ?? 0, responseIds.length);
          const isWhole = length === responseIds.length;
          return {
            responseIds: responseIds.slice(0, length),
            logprobs: logprobs.slice(0, length),
            finish: isWhole && finish !== "abort" ? finish : null,
          };
        });
        const [again] = await engine.generate([{ ...request, begun }], quiet());
        expect(again).toEqual(whole);
      }),
      { numRuns: 30 },
    );
  });

  it("is refused when it does not fit its request", async () => {
    const request = { requestId: "r", promptIds: promptOf(0).ids, n: 2, sampling, seed: 7 };
    const part = (length: number) => ({
      responseIds: new Int32Array(length),
      logprobs: new Float32Array(length),
      finish: null,
    });
    await expect(engine.generate([{ ...request, begun: [part(1)] }], quiet())).rejects.toThrow("one for each of 2");
    await expect(engine.generate([{ ...request, begun: [part(1), part(13)] }], quiet())).rejects.toThrow("at most 12");
  });
});

/** Begun groups as another replica reads them. */
const sent = (begun: readonly BegunGroup[]): readonly BegunGroup[] =>
  fromGroupsBegun(toGroupsBegun(0, begun.map(wholePart)));

/** Collects until it is asked to hand back at its `turn`-th decision to go on, then goes on elsewhere with what was begun. */
async function interrupted(at: number) {
  const handBack = new AbortController();
  const begun: BegunGroup[] = [];
  // The very engine, but it is asked to hand back once it has drawn `at` tokens of each response.
  const cut: RolloutEngine = Object.create(engine, {
    info: { value: () => engine.info() },
    weightVersion: { value: () => engine.weightVersion() },
    abort: { value: async () => {} },
    generate: {
      value: async (...[requests, signal]: Parameters<RolloutEngine["generate"]>) => {
        const rows = await engine.generate(requests, signal);
        handBack.abort(new Error("leaving"));
        return rows.map((row, g) =>
          g === 1
            ? row
            : row.map((one) =>
                one.responseIds.length <= at
                  ? one
                  : {
                      ...one,
                      responseIds: one.responseIds.slice(0, at),
                      logprobs: one.logprobs.slice(0, at),
                      finish: "abort" as const,
                    },
              ),
        );
      },
    },
  });
  const finished = await collectGroups(
    options({ engine: cut, handBack: { signal: handBack.signal, take: (groups) => void begun.push(...groups) } }),
  );
  return { finished, begun: sent(begun) };
}

describe("a call that is asked to hand back", () => {
  it.each([0, 1, 3, 7])("finishes what is whole and gives away the rest, here after %i tokens", async (at) => {
    const whole = await collectGroups(options());
    const { finished, begun } = await interrupted(at);
    expect(finished).toContainEqual(whole[1]);
    const rest = begun.map((group) => ({
      index: group.index,
      attempt: 0,
      prompt: promptOf(group.index),
      begun: group,
    }));
    const later = rest.length > 0 ? await collectGroups(options({ prompts: rest })) : [];
    expect([...finished, ...later].sort((a, b) => a.index - b.index)).toEqual(whole);
  });

  it("stops a real engine in the middle, and the rest goes on with the same bits", async () => {
    const whole = await collectGroups(options());
    const handBack = new AbortController();
    handBack.abort(new Error("leaving"));
    const begun: BegunGroup[] = [];
    const finished = await collectGroups(
      options({ handBack: { signal: handBack.signal, take: (groups) => void begun.push(...groups) } }),
    );
    expect(finished.length + begun.length).toBe(3);
    expect(begun.length).toBeGreaterThan(0);
    const rest = sent(begun).map((group) => ({
      index: group.index,
      attempt: 0,
      prompt: promptOf(group.index),
      begun: group,
    }));
    const later = await collectGroups(options({ prompts: rest }));
    expect([...finished, ...later].sort((a, b) => a.index - b.index)).toEqual(whole);
  });
});

/** A clock whose timers run whenever the engine lets others run. */
const eager: Clock = {
  now: () => 0,
  after(_, run) {
    const next = setImmediate(run);
    return () => clearImmediate(next);
  },
};

describe("a call that saves what it has begun", () => {
  // Large enough to let others run every few tokens.
  const large = { ...model, hidden: 256, ffn: 1024, layers: 6 };
  let busy: RolloutEngine;
  beforeAll(async () => {
    busy = createEmbeddedRolloutEngine({ model: large, rows: 6 });
    await busy.updateWeights(inlineWeights(5, await weightsOf(large, 2)));
  });
  afterAll(() => busy.close());

  it("gives away what it has so far while it goes on, from which another one goes on with the same bits", async () => {
    const saves: (readonly BegunGroup[])[] = [];
    const take = (begun: readonly BegunGroup[]): boolean => saves.push(sent(begun)) > 0;
    const whole = await collectGroups(options({ engine: busy, clock: eager, save: { everyMs: 1, take } }));
    expect(saves.length).toBeGreaterThan(2);
    for (const begun of saves) {
      const prompts = begun.map((group) => ({
        ...{ index: group.index, attempt: 0, prompt: promptOf(group.index) },
        begun: group,
      }));
      const again = await collectGroups(options({ engine: busy, prompts }));
      expect(again).toEqual(begun.map(({ index }) => whole[index]));
    }
    const tokens = saves
      .flat()
      .map(({ responses }) => responses.reduce((sum, { logprobs }) => sum + logprobs.length, 0));
    expect(new Set(tokens).size).toBeGreaterThan(2);
  });

  it("gives away only what has grown since it was taken, and offers again what was not", async () => {
    const [refused, taken]: [BegunGroup[], BegunGroup[]] = [[], []];
    let isFirst = true;
    const take = (begun: readonly BegunGroup[]): boolean => {
      (isFirst ? refused : taken).push(...begun);
      isFirst = false;
      return taken.length > 0;
    };
    await collectGroups(options({ engine: busy, clock: eager, save: { everyMs: 1, take } }));
    const sizeOf = ({ responses }: BegunGroup): number => responses.reduce((sum, one) => sum + one.logprobs.length, 0);
    expect(refused.length).toBeGreaterThan(0);
    expect(taken.map(({ index }) => index)).toEqual(expect.arrayContaining(refused.map(({ index }) => index)));
    for (const index of [0, 1, 2]) {
      const sizes = taken.filter((group) => group.index === index).map(sizeOf);
      expect(sizes).toEqual([...new Set(sizes)].toSorted((a, b) => a - b));
    }
  });

  it("needs an engine that resumes, and no module that generates", async () => {
    const take = (): boolean => expect.unreachable("nothing can go on with it");
    const save = { everyMs: 1, take };
    const { resumes: _, ...info } = busy.info();
    const plain: RolloutEngine = Object.create(busy, {
      ...{ info: { value: () => info }, weightVersion: { value: () => busy.weightVersion() } },
      generate: { value: (...call: Parameters<RolloutEngine["generate"]>) => busy.generate(...call) },
    });
    expect(await collectGroups(options({ engine: plain, clock: eager, save }))).toHaveLength(3);
    const generate = async () => ({ responseIds: [1], logprobs: [-1] });
    const byModule = options({ engine: busy, clock: eager, save, generate, generateTimeoutMs: 1 });
    expect(await collectGroups({ ...byModule, clock })).toHaveLength(3);
  });
});

describe("what was begun by other weights", () => {
  it("goes on with the new ones: segments tile the response and their versions never decrease", async () => {
    const { begun } = await interrupted(3);
    const next = createEmbeddedRolloutEngine({ model });
    await next.updateWeights(inlineWeights(6, await weightsOf(model, 3)));
    const prompts = begun.map((group) => ({
      index: group.index,
      attempt: 0,
      prompt: promptOf(group.index),
      begun: group,
    }));
    const groups = await collectGroups(options({ engine: next, version: 6, prompts }));
    for (const { segments, logprobs } of groups.flatMap(({ trajectories }) => trajectories)) {
      expect(segments[0]).toEqual({ version: 5, from: 0, to: Math.min(3, logprobs.length) });
      expect(segments.at(-1)?.to).toBe(logprobs.length);
      if (segments[1]) expect(segments[1]).toEqual({ version: 6, from: 3, to: logprobs.length });
    }
    await next.close();
  });

  it("is not used when those were newer: the group is generated from its beginning", async () => {
    const newer = {
      step: 3,
      index: 0,
      responses: new Array(4).fill({
        responseIds: Int32Array.of(1),
        logprobs: Float32Array.of(-1),
        finish: null,
        segments: [{ version: 9, from: 0, to: 1 }],
      }),
    };
    const prompts = [{ index: 0, attempt: 0, prompt: promptOf(0), begun: newer }];
    expect(await collectGroups(options({ prompts }))).toEqual([(await collectGroups(options()))[0]]);
  });
});
