/** What the simulated engines say of themselves. */
import { type EngineInfo, type ModelConfig, parametersOf, tensorsOf } from "@muster/engine";

/** Build of the simulated engines. */
export const simBuild = "sim-1";

/** Describes an engine of a model. */
export function infoOf(model: ModelConfig): EngineInfo {
  return {
    kind: "sim",
    build: simBuild,
    modelId: "sim",
    vocab: model.vocab,
    maxContext: model.maxContext,
    ranks: 1,
    logprobs: "sampled-dist",
    resumes: true,
  };
}

/** Number of weights, and the rows of the tensor table. */
export function shapeOf(model: ModelConfig) {
  return { count: parametersOf(model), tensors: tensorsOf(model) };
}

/** Of all controllers of a run: what a seed means does not depend on the text of the rules. */
export const simRules = { digest: "simulated", build: "simulated" };
