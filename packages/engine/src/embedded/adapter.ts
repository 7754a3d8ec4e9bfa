/** The embedded engine as an adapter: its table is `[model]`, and vocabulary and context are those of the task. */
import { z } from "@muster/protocol";
import { referenceOf } from "../algorithms/loss-needs.ts";
import { lossFeatures } from "../engine.ts";
import { checkWeightsFor, hfConfigOf } from "../hf-folder.ts";
import type { EngineAdapter, EngineOptions, EngineProblem } from "../registry/adapter.ts";
import { EngineRegistry } from "../registry/engine-registry.ts";
import { embeddedBuild } from "./core.ts";
import { embeddedFingerprint } from "./fingerprint.ts";
import { type ModelConfig, modelIdOf, tensorsOf } from "./model-config.ts";
import { createEmbeddedPolicyEngine } from "./policy-engine.ts";
import { createEmbeddedRolloutEngine } from "./rollout-engine.ts";

const count = z.int().min(1);

const schema = z.strictObject({
  hidden: count.default(64).describe("Width of the residual stream."),
  layers: count.default(2).describe("Number of blocks."),
  heads: count.default(4).describe("Attention heads; divides hidden."),
  kv_heads: count.default(4).describe("Key-value heads; divides heads."),
  ffn: count.default(128).describe("Width of the feed-forward part."),
  tied: z.boolean().default(true).describe("Whether input and output embeddings are one tensor."),
});

/** The model of a job's options and its task. Pure. */
export function embeddedModelOf(
  options: EngineOptions,
  { vocab, maxContext }: { readonly vocab: number; readonly maxContext: number },
): ModelConfig {
  const { kv_heads: kvHeads, ...shape } = schema.parse(options);
  return { vocab, ...shape, kvHeads, maxContext };
}

/** The adapter of the embedded engine. */
export const embeddedAdapter: EngineAdapter = {
  kind: "embedded",
  roles: ["policy", "rollout"],
  table: "model",
  schema,
  build: embeddedBuild,
  describe(options, needs) {
    const model = embeddedModelOf(options, needs);
    return {
      modelId: modelIdOf(model),
      ...needs,
      tensors: tensorsOf(model),
      modelConfig: hfConfigOf(model),
      deterministic: true,
      transports: ["inline", "shards"],
      logprobs: "sampled-dist",
      losses: lossFeatures,
    };
  },
  check: (options, { rollout }) => problemsOf(schema.parse(options), rollout.ranks),
  checkWeights: async (options, { model }, path) => await checkWeightsFor(embeddedModelOf(options, model), path),
  doctor: async () => [{ state: "ok", name: "embedded engine", detail: embeddedBuild(), fix: null }],
  openPolicy: async (options, { needs, config }) => {
    const source = referenceOf(config);
    const engine = createEmbeddedPolicyEngine({
      model: embeddedModelOf(options, needs),
      hasReference: source !== null,
      fingerprint: await embeddedFingerprint(),
    });
    if (source) await engine.openReference(source);
    return engine;
  },
  openRollout: async (options, { needs, config }) =>
    createEmbeddedRolloutEngine({
      model: embeddedModelOf(options, needs),
      ranks: config.rollout.ranks,
      fingerprint: await embeddedFingerprint(),
    }),
};

/** The registry of a program that has no other engine. */
export const embeddedEngines: EngineRegistry = new EngineRegistry([["embedded", embeddedAdapter]]);

function problemsOf(model: z.infer<typeof schema>, ranks: number): readonly EngineProblem[] {
  const { hidden, heads, kv_heads: kvHeads, ffn } = model;
  const problem = (holds: boolean, keys: readonly string[], text: string): EngineProblem[] =>
    holds ? [] : [{ keys, text }];
  return [
    problem(
      hidden % (4 * heads) === 0,
      ["model.heads", "model.hidden"],
      `four times model.heads = ${heads} must divide model.hidden = ${hidden}: heads are vectors of four; make model.hidden a multiple of ${4 * heads}`,
    ),
    problem(
      heads % kvHeads === 0,
      ["model.kv_heads", "model.heads"],
      `model.kv_heads = ${kvHeads} must divide model.heads = ${heads}: query heads share key-value heads evenly; choose a divisor of model.heads for model.kv_heads`,
    ),
    problem(
      ffn % 4 === 0,
      ["model.ffn"],
      `four must divide model.ffn = ${ffn}: the feed-forward part is vectors of four; make model.ffn a multiple of 4`,
    ),
    problem(
      kvHeads % ranks === 0,
      ["rollout.ranks", "model.kv_heads"],
      `rollout.ranks = ${ranks} must divide model.kv_heads = ${kvHeads}: each rank has as many attention heads; choose a divisor of model.kv_heads for rollout.ranks, or leave it out`,
    ),
    problem(
      ranks === 1 || ffn % (4 * ranks) === 0,
      ["rollout.ranks", "model.ffn"],
      `four times rollout.ranks = ${ranks} must divide model.ffn = ${ffn}: each rank has as many vectors of four of the feed-forward part; make model.ffn a multiple of it, or lower rollout.ranks`,
    ),
  ].flat();
}
