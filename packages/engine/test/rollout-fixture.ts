/** Rollout engines with weights, and requests for them. */
import type { Clock } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { createEmbeddedPolicyEngine, createEmbeddedRolloutEngine, type ModelConfig } from "../src/embedded/index.ts";
import type { GenerateRequest, RolloutEngine } from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";

/** The clock on the wall. */
export const clock: Clock = {
  now: () => performance.now(),
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};

/** A tiny model with grouped queries and odd sizes. */
export const tiny: ModelConfig = {
  vocab: 11,
  hidden: 16,
  layers: 2,
  heads: 2,
  kvHeads: 1,
  ffn: 12,
  maxContext: 18,
  tied: true,
};

/** Weights section of a seed. */
export async function weightsOf(model: ModelConfig, seed: number): Promise<Uint8Array> {
  const policy = createEmbeddedPolicyEngine({ model });
  await policy.initialize({ kind: "seed", seed });
  return policy.state().weights.slice();
}

/** An engine at version 1. `rows` is the size of its cache. */
export async function openRollout(
  options: { readonly rows?: number; readonly model?: ModelConfig } = {},
): Promise<RolloutEngine> {
  const model = options.model ?? tiny;
  const engine = createEmbeddedRolloutEngine({ model, ...(options.rows ? { rows: options.rows } : {}) });
  await engine.updateWeights(inlineWeights(1, await weightsOf(model, 3)));
  return engine;
}

/** Requests with prompts of different lengths, one of them a single token. */
export function requestsOf(count: number, change: Partial<GenerateRequest> = {}): GenerateRequest[] {
  return Array.from({ length: count }, (_, i) => ({
    requestId: `r${i}`,
    promptIds: Int32Array.from({ length: 1 + ((i * 3) % 7) }, (_, t) => (i + 2 * t) % tiny.vocab),
    n: 3,
    sampling: { temperature: 1, maxNewTokens: 12, stopTokenIds: [0] },
    seed: 100 + i,
    ...change,
  }));
}

/** A signal that nobody aborts. */
export const quiet = (): AbortSignal => new AbortController().signal;

/** What of a job's configuration modules need. */
export function moduleConfig({
  name = "addition",
  rewardMs = 10_000,
  generateMs = 10_000,
  moduleBytes = 2 ** 28,
} = {}) {
  const timing = { rewardMs, generateMs } as JobConfig["timing"];
  const limits = { moduleBytes } as JobConfig["limits"];
  return { task: { name, reward: "" }, timing, limits };
}
