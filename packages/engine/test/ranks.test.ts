import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createEmbeddedRolloutEngine, type ModelConfig, rankSectionOf } from "../src/embedded/index.ts";
import type { BegunResponse, Generated, RolloutEngine } from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { quiet, requestsOf, weightsOf } from "./rollout-fixture.ts";

/** Odd vocabulary, grouped queries, products deeper than one packed block of 256. */
const model: ModelConfig = {
  vocab: 11,
  hidden: 64,
  layers: 2,
  heads: 8,
  kvHeads: 4,
  ffn: 272,
  maxContext: 18,
  tied: true,
};

const engines: RolloutEngine[] = [];

afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

async function open(ranks: number, given: { readonly model?: ModelConfig; readonly rows?: number } = {}) {
  const engine = createEmbeddedRolloutEngine({ model, rows: 7, ...given, ranks });
  engines.push(engine);
  await engine.updateWeights(inlineWeights(1, await weightsOf(given.model ?? model, 3)));
  return engine;
}

/** Responses with the bits of their log-probs. */
const bitsOf = (rows: readonly (readonly Generated[])[]) =>
  rows.map((row) =>
    row.map(({ responseIds, logprobs, finish }) => ({
      ids: [...responseIds],
      bits: [...new Uint32Array(logprobs.slice().buffer)],
      finish,
    })),
  );

describe("an engine of several ranks", () => {
  for (const tied of [true, false]) {
    it(`draws the bits of one rank, whatever their number (${tied ? "tied" : "own"} head)`, async () => {
      const shape = { ...model, tied };
      const alone = await (await open(1, { model: shape })).generate(requestsOf(6), quiet());
      for (const ranks of [2, 4]) {
        const shared = await (await open(ranks, { model: shape })).generate(requestsOf(6), quiet());
        expect(bitsOf(shared), `${ranks} ranks`).toEqual(bitsOf(alone));
      }
    });
  }

  it("takes the likeliest token and other temperatures as one rank does", async () => {
    const [alone, shared] = [await open(1), await open(2)];
    for (const temperature of [0, 0.7]) {
      const requests = requestsOf(2, { sampling: { temperature, maxNewTokens: 9, stopTokenIds: [0] } });
      expect(bitsOf(await shared.generate(requests, quiet()))).toEqual(bitsOf(await alone.generate(requests, quiet())));
    }
  });

  it("goes on with responses that engines of other numbers of ranks began", async () => {
    const requests = requestsOf(3);
    const whole = await (await open(1)).generate(requests, quiet());
    let begun: (readonly BegunResponse[])[] = [];
    for (const [ranks, tokens] of [
      [4, 2],
      [1, 5],
      [2, 7],
    ] as const) {
      const engine = await open(ranks);
      const goOn = requests.map((request, i) => ({
        ...request,
        ...(begun[i] ? { begun: begun[i] } : {}),
        sampling: { ...request.sampling, maxNewTokens: tokens },
      }));
      const cut = await engine.generate(goOn, quiet());
      begun = cut.map((row) =>
        row.map(({ responseIds, logprobs, finish }) => ({
          ...{ responseIds, logprobs },
          finish: finish === "stop" ? finish : null,
        })),
      );
    }
    const last = await open(2);
    const ended = await last.generate(
      requests.map((request, i) => ({ ...request, begun: begun[i]! })),
      quiet(),
    );
    expect(bitsOf(ended)).toEqual(bitsOf(whole));
  });

  it("gives what is drawn so far of a request that is aborted, and goes on with it", async () => {
    const requests = requestsOf(1, { sampling: { temperature: 1, maxNewTokens: 17, stopTokenIds: [] } });
    const alone = await (await open(1)).generate(requests, quiet());
    const engine = await open(2);
    const running = engine.generate(requests, quiet());
    while ((engine.drawn?.("r0")?.[0]?.responseIds.length ?? 0) < 3) await new Promise(setImmediate);
    await engine.pause("keep");
    const [seen] = [engine.drawn!("r0")!.map(({ responseIds }) => [...responseIds])];
    await engine.abort(["r0"]);
    await engine.resume();
    const [cut = []] = await running;
    expect(cut.map(({ finish }) => finish)).toEqual(["abort", "abort", "abort"]);
    cut.forEach(({ responseIds }, i) => {
      expect([...responseIds].slice(0, seen[i]!.length)).toEqual(seen[i]);
    });
    const begun = cut.map(({ responseIds, logprobs }) => ({ responseIds, logprobs, finish: null }));
    const ended = await engine.generate([{ ...requests[0]!, begun }], quiet());
    expect(bitsOf(ended)).toEqual(bitsOf(alone));
  });

  it("goes on with other weights after a freeze in the middle of a pass, and its responses say so", async () => {
    const requests = requestsOf(2, { sampling: { temperature: 1, maxNewTokens: 17, stopTokenIds: [] } });
    const alone = await (await open(1)).generate(requests, quiet());
    const engine = await open(2);
    const running = engine.generate(requests, quiet());
    while ((engine.drawn?.("r0")?.[0]?.responseIds.length ?? 0) < 3) await new Promise(setImmediate);
    await engine.pause("keep");
    // The same bytes under another name: whatever a pass had read of both would show.
    await engine.updateWeights(inlineWeights(2, await weightsOf(model, 3)));
    await engine.resume();
    const rows = await running;
    expect(bitsOf(rows)).toEqual(bitsOf(alone));
    expect(rows.flat().every(({ versionAtStart, versionAtEnd }) => versionAtStart === 1 && versionAtEnd === 2)).toBe(
      true,
    );
  });

  it("takes each rank's part of new weights, and none that does not fit", async () => {
    const [alone, shared] = [await open(1), await open(2)];
    const whole = await weightsOf(model, 8);
    const shards = [0, 1].map((rank) => {
      const { bytes, parts } = rankSectionOf(model, { rank, ranks: 2 });
      expect(bytes).toBeLessThan(0.55 * whole.length);
      const own = new Uint8Array(bytes);
      for (const { from, offset, bytes: length } of parts) own.set(whole.subarray(from, from + length), offset);
      return own;
    });
    const short = { version: 2, via: "shards", shards: [shards[0]!.slice(), shards[1]!.slice(4)] } as const;
    await expect(shared.updateWeights(short)).rejects.toMatchObject({ code: "MUSTER_ERR_ENGINE_STATE_LENGTH" });
    expect(shared.weightVersion()).toBe(1);
    await expect(alone.updateWeights({ version: 2, via: "shards", shards })).rejects.toThrow(/inline or disk/);
    await shared.updateWeights({ version: 2, via: "shards", shards });
    await alone.updateWeights(inlineWeights(2, whole));
    expect(bitsOf(await shared.generate(requestsOf(4), quiet()))).toEqual(
      bitsOf(await alone.generate(requestsOf(4), quiet())),
    );
  });

  it("ends as a whole when a rank ends, in the middle of a pass or between two", async () => {
    const told = vi.spyOn(Worker.prototype, "postMessage");
    const engine = await open(4);
    const threads = [...new Set(told.mock.contexts)] as Worker[];
    expect(threads).toHaveLength(4);
    const causes: string[] = [];
    engine.onLost?.(({ message }) => causes.push(message));
    const running = engine.generate(requestsOf(6), quiet());
    const lost = expect(running).rejects.toMatchObject({ code: "MUSTER_ERR_ENGINE_RANK_LOST" });
    while (!engine.drawn?.("r0")) await new Promise(setImmediate);
    await threads[2]!.terminate();
    await lost;
    expect(await engine.health({ deep: false, signal: quiet() })).toMatchObject({ ok: false, state: "unhealthy" });
    await expect(engine.generate(requestsOf(1), quiet())).rejects.toThrow(/rank 2/);
    await expect(engine.updateWeights(inlineWeights(2, await weightsOf(model, 3)))).rejects.toThrow(/rank 2/);
    expect(causes).toEqual([expect.stringContaining("rank 2")]);
    await engine.close();
    expect(threads.map(({ threadId }) => threadId)).toEqual([-1, -1, -1, -1]);
  });

  it("is refused where ranks cannot share the model evenly", async () => {
    const opened =
      (ranks: number, change: Partial<ModelConfig> = {}) =>
      () =>
        createEmbeddedRolloutEngine({ model: { ...model, ...change }, ranks });
    expect(opened(3)).toThrow("model kvHeads is 4; it must be a multiple of the number of ranks = 3");
    expect(opened(2, { ffn: 68 })).toThrow("model ffn is 68; it must be a multiple of 4 · ranks = 8");
    expect(opened(0)).toThrow("ranks is 0; it must be a whole number from 1 to 64");
  });

  it("says how many ranks it has", async () => {
    expect((await open(2)).info()).toMatchObject({ ranks: 2 });
  });
});
