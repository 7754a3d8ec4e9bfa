/** What the simulated engines say of themselves. */
import type { EngineInfo } from "@muster/engine";
import { parametersOf, tensorsOf } from "@muster/engine/embedded";
import type { JobConfig } from "@muster/protocol";

/** Build of the simulated engines. */
export const simBuild = "sim-1";

/** Describes an engine of a model. */
export function infoOf(model: JobConfig["model"]): EngineInfo {
  return {
    kind: "sim",
    build: simBuild,
    modelId: "sim",
    vocab: model.vocab,
    maxContext: model.maxContext,
    ranks: 1,
    logprobs: "sampled-dist",
    resumes: true,
    fingerprint: "sim",
  };
}

/** Number of weights, and the rows of the tensor table. */
export function shapeOf(needs: JobConfig["model"]) {
  const model = { ...needs, hidden: 4, layers: 1, heads: 1, kvHeads: 1, ffn: 4, tied: true };
  return { count: parametersOf(model), tensors: tensorsOf(model) };
}

/** Of all controllers of a run: what a seed means does not depend on the text of the rules. */
export const simRules = { digest: "simulated", build: "simulated" };
