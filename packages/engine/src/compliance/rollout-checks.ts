/** Checks of samplers: whose weights, which random streams, which bounds. */
import type { Generated, GenerateRequest, RolloutEngine } from "../engine.ts";
import { inlineWeights } from "../inline-weights.ts";
import { copyOf } from "../section-bytes.ts";
import { type EngineCheck, type Given, mustEqual, mustHold, mustRefuse } from "./check.ts";

const never = new AbortController().signal;

/** Weights that a trainer of the same engine begins with, or zeros. */
async function weightsOf({ adapter, described, policy }: Given): Promise<Uint8Array> {
  const last = described.tensors.at(-1);
  if (!adapter.roles.includes("policy")) return new Uint8Array((last?.offsetBytes ?? 0) + (last?.sizeBytes ?? 0));
  const engine = await policy();
  await engine.initialize({ kind: "seed", seed: 7 });
  return copyOf(engine.state().weights);
}

async function serving(given: Given, version = 3): Promise<RolloutEngine> {
  const engine = await given.rollout();
  await engine.updateWeights(inlineWeights(version, await weightsOf(given)));
  return engine;
}

const requestOf = (patch: Partial<GenerateRequest> = {}): GenerateRequest => ({
  requestId: "r",
  promptIds: Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9),
  n: 16,
  sampling: { temperature: 1, maxNewTokens: 8, stopTokenIds: [0] },
  seed: 11,
  ...patch,
});

async function drawn(
  engine: RolloutEngine,
  ...requests: GenerateRequest[]
): Promise<readonly (readonly Generated[])[]> {
  return await engine.generate(requests, never);
}

/** For adapters with the role `rollout`. */
export const rolloutChecks: readonly EngineCheck[] = [
  {
    says: "samples: has no version before the first weights, and the version of the last ones afterwards",
    run: async (given) => {
      const engine = await given.rollout();
      mustEqual(engine.weightVersion(), null, "the version before any");
      const weights = await weightsOf(given);
      for (const version of [3, 3, 4]) {
        await engine.updateWeights(inlineWeights(version, weights));
        mustEqual(engine.weightVersion(), version, "the version after an update");
      }
      const { ok, state } = await engine.health({ deep: true, signal: never });
      mustEqual({ ok, state }, { ok: true, state: "up" }, "health with weights");
    },
  },
  {
    says: "samples: gives as many responses as asked, within their bounds, of the version that it has",
    run: async (given) => {
      const rows = await drawn(await serving(given), requestOf(), requestOf({ requestId: "s", n: 2 }));
      mustEqual(
        rows.map((row) => row.length),
        [16, 2],
        "responses by request",
      );
      for (const { responseIds, logprobs, finish, versionAtStart, versionAtEnd } of rows.flat()) {
        mustEqual([versionAtStart, versionAtEnd], [3, 3], "versions of a response");
        mustEqual(logprobs.length, responseIds.length, "log-probs of a response");
        mustHold(responseIds.length >= 1 && responseIds.length <= 8, `a response of ${responseIds.length} tokens`);
        mustHold(
          logprobs.every((one) => one <= 1e-6 && Number.isFinite(one)),
          "a log-prob is no log-prob",
        );
        mustHold(
          responseIds.every((id) => id >= 0 && id < given.described.vocab),
          "a token is not in the vocabulary",
        );
        mustEqual(finish === "stop", responseIds.at(-1) === 0, "that a response that ends with a stop token stopped");
      }
    },
  },
  {
    says: "samples: a response belongs to its seed and number, whatever is drawn with it",
    run: async (given) => {
      if (!given.described.deterministic) return;
      const engine = await serving(given);
      const [[, ...rest] = []] = await drawn(engine, requestOf());
      const [, alone] = await drawn(engine, requestOf({ requestId: "other", seed: 5 }), requestOf({ from: 1, n: 15 }));
      mustEqual(alone, rest, "responses 1 to 15 drawn by themselves");
    },
  },
  {
    says: "samples: what is aborted before it begins draws nothing, and weights that are too short are refused",
    run: async (given) => {
      const engine = await serving(given);
      const stop = AbortSignal.abort(new Error("stop"));
      await mustRefuse(() => engine.generate([requestOf()], stop), "a call that is aborted");
      await mustRefuse(() => engine.updateWeights(inlineWeights(9, new Uint8Array(2))), "weights of 2 bytes");
      mustEqual(engine.weightVersion(), 3, "the version after refused weights");
    },
  },
];
