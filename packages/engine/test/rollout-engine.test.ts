import { describe, expect, it } from "vitest";
import { openCore } from "../src/embedded/core.ts";
import { fillTokens } from "../src/embedded/gradient.ts";
import { createEmbeddedRolloutEngine } from "../src/embedded/index.ts";
import { Gate } from "../src/gate.ts";
import { inlineWeights } from "../src/internal.ts";
import { openRollout, quiet, requestsOf, tiny, weightsOf } from "./rollout-fixture.ts";

describe("sampling", () => {
  it("reports the log-probs of the trainer's forward pass bit for bit", async () => {
    const engine = await openRollout();
    const requests = requestsOf(9);
    const rows = await engine.generate(requests, quiet());
    const core = openCore(tiny, { tokens: 32 * tiny.maxContext, slots: 0 });
    const weights = core.call.reserve(core.parameters);
    core.bytes(weights, 4 * core.parameters).set(await weightsOf(tiny, 3));
    const sequences = rows.flatMap((row, i) => row.map((generated) => ({ prompt: requests[i]!.promptIds, generated })));
    const length = fillTokens(
      core,
      sequences.map(({ prompt, generated }) => Int32Array.of(...prompt, ...generated.responseIds)),
    );
    core.call.forward(weights, sequences.length, length);
    const logprobs = core.floats(core.call.logprobs.value, sequences.length * length);
    sequences.forEach(({ prompt, generated }, i) => {
      const start = i * length + prompt.length - 1;
      expect(generated.logprobs).toEqual(logprobs.slice(start, start + generated.responseIds.length));
    });
    expect(sequences.length).toBe(27);
  });

  it("draws the same responses whatever the cache size and the company", async () => {
    const requests = requestsOf(9);
    const wide = await (await openRollout({ rows: 64 })).generate(requests, quiet());
    const narrow = await (await openRollout({ rows: 2 })).generate(requests, quiet());
    const engine = await openRollout({ rows: 5 });
    const alone = [];
    for (const request of requests) alone.push(...(await engine.generate([request], quiet())));
    expect(narrow).toEqual(wide);
    expect(alone).toEqual(wide);
  });

  it("gives sample i of a seed the same response whatever n is", async () => {
    const engine = await openRollout();
    const [three] = await engine.generate(requestsOf(1), quiet());
    const [five] = await engine.generate(requestsOf(1, { n: 5 }), quiet());
    expect(five!.slice(0, 3)).toEqual(three);
    expect(new Set(five!.map((generated) => generated.responseIds.join())).size).toBeGreaterThan(1);
  });

  it("ends a response at a stop token, at its limit, and at the end of the context", async () => {
    const engine = await openRollout();
    const rows = (await engine.generate(requestsOf(9), quiet())).flat();
    for (const { responseIds, finish } of rows) {
      expect(responseIds.indexOf(0)).toBe(finish === "stop" ? responseIds.length - 1 : -1);
      expect(responseIds.length).toBeLessThanOrEqual(12);
    }
    expect(new Set(rows.map((row) => row.finish))).toEqual(new Set(["stop", "length"]));
    const sampling = { temperature: 1, maxNewTokens: 1000, stopTokenIds: [] };
    const [row] = await engine.generate(requestsOf(1, { sampling }), quiet());
    expect(row?.[0]?.responseIds.length).toBe(tiny.maxContext - 1);
  });

  it("takes the likeliest token at temperature 0, independent of the seed", async () => {
    const engine = await openRollout();
    const sampling = { temperature: 0, maxNewTokens: 8, stopTokenIds: [] };
    const [first] = await engine.generate(requestsOf(1, { sampling }), quiet());
    const [other] = await engine.generate(requestsOf(1, { sampling, seed: 5 }), quiet());
    expect(first![0]!.responseIds).toEqual(first![1]!.responseIds);
    expect(other![0]!.responseIds).toEqual(first![0]!.responseIds);
  });

  it("draws tokens as often as their probabilities say", async () => {
    const engine = await openRollout();
    const sampling = { temperature: 1, maxNewTokens: 1, stopTokenIds: [] };
    const [row] = await engine.generate(requestsOf(1, { sampling, n: 4000 }), quiet());
    const counts = new Map<number, { count: number; probability: number }>();
    for (const { responseIds, logprobs } of row!) {
      const entry = counts.get(responseIds[0]!) ?? { count: 0, probability: Math.exp(logprobs[0]!) };
      counts.set(responseIds[0]!, { ...entry, count: entry.count + 1 });
    }
    for (const { count, probability } of counts.values()) {
      const deviation = Math.sqrt((probability * (1 - probability)) / 4000);
      expect(Math.abs(count / 4000 - probability)).toBeLessThan(5 * deviation);
    }
  });
});

describe("requests", () => {
  it("are refused with the field, the value and the rule", async () => {
    const engine = await openRollout();
    const refused = async (change: Parameters<typeof requestsOf>[1]): Promise<string> =>
      engine.generate(requestsOf(1, change), quiet()).then(
        () => "accepted",
        (error: Error) => error.message,
      );
    const sampling = { temperature: 1, maxNewTokens: 4, stopTokenIds: [] };
    expect(await refused({ sampling: { ...sampling, topP: 0.9 } })).toContain("does not support topP (0.9)");
    expect(await refused({ sampling: { ...sampling, topK: 40 } })).toContain("does not support topK (40)");
    expect(await refused({ sampling: { ...sampling, temperature: Number.NaN } })).toContain("temperature is NaN");
    expect(await refused({ promptIds: new Int32Array(0) })).toContain("prompt length is 0");
    expect(await refused({ promptIds: new Int32Array(18) })).toContain("prompt length is 18");
    expect(await refused({ promptIds: Int32Array.of(3, 11) })).toContain("a prompt token is 11");
    expect(await refused({ n: 0 })).toContain("n is 0");
  });

  it("stop with the signal's reason", async () => {
    const engine = await openRollout();
    const controller = new AbortController();
    const running = engine.generate(requestsOf(200, { n: 64 }), controller.signal);
    controller.abort(new Error("stop now"));
    await expect(running).rejects.toThrow("stop now");
    expect((await engine.generate(requestsOf(1), quiet())).length).toBe(1);
  });

  it("let other work of the process run while they are served", async () => {
    const engine = await openRollout({ rows: 8 });
    let turns = 0;
    let running = true;
    const others = (async () => {
      while (running) {
        turns++;
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await engine.generate(requestsOf(300, { n: 64 }), quiet());
    running = false;
    await others;
    expect(turns).toBeGreaterThan(3);
  });

  it("end with finish abort when aborted by id; the others are not touched", async () => {
    const engine = await openRollout({ rows: 8 });
    const requests = requestsOf(400, { n: 32 });
    const running = engine.generate(requests, quiet());
    await engine.abort(["r399", "unknown"]);
    const rows = await running;
    expect(rows[399]!.map((generated) => generated.finish)).toEqual(Array(32).fill("abort"));
    expect(rows[398]!.some((generated) => generated.finish === "abort")).toBe(false);
  });
});

/** Weights that come when they are told to; until then the memory for them is wiped. */
function heldBack(data: Uint8Array) {
  const [begun, arriving] = [new Gate(), new Gate()];
  begun.shut();
  arriving.shut();
  const copyTo = async (into: Uint8Array): Promise<void> => {
    into.fill(0);
    begun.open();
    await arriving.passed(quiet());
    into.set(data);
  };
  return { bytes: data.length, copyTo, begun: () => begun.passed(quiet()), arrive: () => arriving.open() };
}

/** Whether a promise has settled when everything that is ready now has run. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = (): void => {
    settled = true;
  };
  promise.then(note, note);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  return settled;
}

const idsOf = (rows: readonly (readonly { readonly responseIds: Int32Array }[])[]) =>
  rows.flat().map(({ responseIds }) => [...responseIds]);

describe("weights", () => {
  it("are needed before the first response", async () => {
    const engine = createEmbeddedRolloutEngine({ model: tiny });
    expect(engine.weightVersion()).toBeNull();
    expect(await engine.health({ deep: true, signal: quiet() })).toMatchObject({ ok: false, state: "starting" });
    await expect(engine.generate(requestsOf(1), quiet())).rejects.toThrow("needs updateWeights() first");
  });

  it("change what is drawn, once per version", async () => {
    const engine = await openRollout();
    const before = await engine.generate(requestsOf(3), quiet());
    const data = await weightsOf(tiny, 4);
    await engine.updateWeights(inlineWeights(1, data));
    expect(await engine.generate(requestsOf(3), quiet())).toEqual(before);
    await engine.updateWeights(inlineWeights(2, data));
    const after = await engine.generate(requestsOf(3), quiet());
    expect(after[0]![0]).toMatchObject({ versionAtStart: 2, versionAtEnd: 2 });
    expect(after[0]![0]!.logprobs).not.toEqual(before[0]![0]!.logprobs);
  });

  it("of another model are refused and leave the old ones in place", async () => {
    const engine = await openRollout();
    const update = engine.updateWeights(inlineWeights(2, new Uint8Array(12)));
    await expect(update).rejects.toThrow("weights has 12 bytes");
    expect(engine.weightVersion()).toBe(1);
  });

  it("wait for running calls, so that a response comes from one version", async () => {
    const engine = await openRollout({ rows: 4 });
    const running = engine.generate(requestsOf(300, { n: 32 }), quiet());
    const updating = engine.updateWeights(inlineWeights(2, await weightsOf(tiny, 4)));
    const rows = (await running).flat();
    await updating;
    expect(rows.every((row) => row.versionAtStart === 1 && row.versionAtEnd === 1)).toBe(true);
    expect(engine.weightVersion()).toBe(2);
  });

  it("may change under calls that are frozen with keep, and the responses say so", async () => {
    const engine = await openRollout({ rows: 256 });
    const running = engine.generate(requestsOf(300, { n: 64 }), quiet());
    await new Promise((resolve) => setImmediate(resolve)); // the first of its decodes
    await engine.pause("keep");
    await engine.updateWeights(inlineWeights(2, await weightsOf(tiny, 4)));
    await engine.resume();
    const rows = (await running).flat();
    expect(rows.some((row) => row.versionAtStart === 1 && row.versionAtEnd === 2)).toBe(true);
    expect(rows.every((row) => row.versionAtEnd === 2 || row.versionAtStart === 1)).toBe(true);
  });

  it("are not drawn from before they are whole, also by calls that are thawed meanwhile", async () => {
    const engine = await openRollout();
    const expected = await engine.generate(requestsOf(20, { n: 8 }), quiet());
    const running = engine.generate(requestsOf(20, { n: 8 }), quiet());
    await engine.pause("keep");
    const weights = heldBack(await weightsOf(tiny, 3));
    const updating = engine.updateWeights({ version: 2, via: "inline", ...weights });
    const resuming = engine.resume();
    await weights.begun();
    expect(await isSettled(running)).toBe(false);
    weights.arrive();
    await Promise.all([updating, resuming]);
    // The same weights under another version: whoever had drawn from the wiped memory would have drawn something else.
    expect(idsOf(await running)).toEqual(idsOf(expected));
  });

  it("that did not come whole are none: old ones are overwritten, so nothing is drawn until others come", async () => {
    const engine = await openRollout();
    const broken = { version: 2, via: "inline", bytes: (await weightsOf(tiny, 4)).length } as const;
    const copyTo = () => Promise.reject(new Error("the holder went away"));
    const held = engine.updateWeights({ ...broken, copyTo });
    const waiting = engine.generate(requestsOf(1), quiet());
    await expect(held).rejects.toThrow("the holder went away");
    await expect(waiting).rejects.toThrow("needs updateWeights() first");
    expect(engine.weightVersion()).toBeNull();
    await engine.updateWeights(inlineWeights(2, await weightsOf(tiny, 4)));
    expect(await engine.generate(requestsOf(1), quiet())).toHaveLength(1);
  });

  it("that do not come whole under frozen calls end those with an error", async () => {
    const engine = await openRollout({ rows: 8 });
    const running = engine.generate(requestsOf(100, { n: 64 }), quiet());
    await engine.pause("keep");
    const bytes = (await weightsOf(tiny, 4)).length;
    const copyTo = () => Promise.reject(new Error("the holder went away"));
    const updating = engine.updateWeights({ version: 2, via: "inline", bytes, copyTo });
    await expect(updating).rejects.toThrow("the holder went away");
    await engine.resume();
    await expect(running).rejects.toThrow("needs updateWeights() first");
  });
});

describe("pausing", () => {
  it("with drain lets running calls finish and holds new ones until resume", async () => {
    const engine = await openRollout();
    const running = engine.generate(requestsOf(50), quiet());
    await engine.pause("drain");
    expect((await running).flat().some((row) => row.finish === "abort")).toBe(false);
    let done = false;
    const held = engine.generate(requestsOf(1), quiet()).then(() => {
      done = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(done).toBe(false);
    await engine.resume();
    await held;
    expect(done).toBe(true);
  });

  it("with abort ends running calls with finish abort", async () => {
    const engine = await openRollout({ rows: 8 });
    const running = engine.generate(requestsOf(300, { n: 64 }), quiet());
    await engine.pause("abort");
    expect((await running).at(-1)!.every((row) => row.finish === "abort")).toBe(true);
    await engine.resume();
    expect((await engine.generate(requestsOf(1), quiet())).flat().some((row) => row.finish === "abort")).toBe(false);
  });

  it("does not hold a call whose signal is aborted", async () => {
    const engine = await openRollout();
    await engine.pause("drain");
    const controller = new AbortController();
    const held = engine.generate(requestsOf(1), controller.signal);
    controller.abort(new Error("gave up"));
    await expect(held).rejects.toThrow("gave up");
  });

  it("is over when the engine is closed", async () => {
    const engine = await openRollout();
    expect(await engine.health({ deep: true, signal: quiet() })).toEqual({ ok: true, state: "up" });
    await engine.close();
    expect((await engine.health({ deep: false, signal: quiet() })).state).toBe("stopping");
    await expect(engine.generate(requestsOf(1), quiet())).rejects.toThrow("closed");
  });
});
