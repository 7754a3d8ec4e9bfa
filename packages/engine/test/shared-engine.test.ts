/** Turns that are over before their engine thinks so. */
import type { Generated } from "@muster/base";
import { expect, test } from "vitest";
import { KeptTurns } from "../src/collect/kept-turns.ts";
import { SharedEngine } from "../src/collect/shared-engine.ts";
import type { RolloutEngine } from "../src/engine.ts";

/** Draws 0, 1, 2, … until it is aborted. */
function endlessEngine() {
  const drawn = new Map<string, number[]>();
  const ends = new Map<string, (generated: Generated) => void>();
  const generatedOf = (ids: readonly number[]): Generated => ({
    ...{ responseIds: Int32Array.from(ids), logprobs: new Float32Array(ids.length), finish: "abort" },
    ...{ versionAtStart: 1, versionAtEnd: 1 },
  });
  const engine = {
    drawn: (id: string) => {
      const ids = drawn.get(id) ?? [];
      ids.push(ids.length);
      drawn.set(id, ids);
      return [generatedOf(ids)];
    },
    ...{ info: () => ({}), weightVersion: () => 1 },
    abort: async ([id = ""]: readonly string[]) => ends.get(id)?.(generatedOf(drawn.get(id) ?? [])),
    generate: (requests: readonly { readonly requestId: string }[]) =>
      Promise.all(
        requests.map(({ requestId }) => new Promise<Generated[]>((end) => ends.set(requestId, (one) => end([one])))),
      ),
  };
  return engine as unknown as RolloutEngine;
}

const sampling = { temperature: 1, maxNewTokens: 99, stopTokenIds: [] };
const keyOf = (signal: AbortSignal) => ({
  requestId: "r",
  seed: 1,
  sample: 0,
  sampling,
  turns: new KeptTurns(),
  signal,
});

test("a turn that says when it is over is answered with what was drawn until then", async () => {
  const shared = new SharedEngine(endlessEngine(), new AbortController().signal);
  const { handle } = shared.handleOf(keyOf(new AbortController().signal));
  const isOver = ({ responseIds }: Generated): boolean => responseIds.includes(3);
  const { responseIds, finish } = await handle.generate({ promptIds: [1], isOver });
  expect([...responseIds, finish]).toEqual([0, 1, 2, 3, "abort"]);
});

test("a turn that its sample gave up is no answer, whatever it says itself", async () => {
  const shared = new SharedEngine(endlessEngine(), new AbortController().signal);
  const settled = new AbortController();
  const { handle } = shared.handleOf(keyOf(settled.signal));
  const turn = handle.generate({ promptIds: [1], isOver: () => false });
  setTimeout(() => settled.abort(), 5);
  await expect(turn).rejects.toMatchObject({ code: "MUSTER_ERR_TRAJECTORY_ABORTED" });
});
