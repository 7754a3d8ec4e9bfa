/** The embedded engine: a small Llama in WebAssembly that trains and samples inside of a process. Nothing of it is loaded before it is asked for. */

export { hfConfigOf, loadHfFolder, saveHfFolder } from "../hf-folder.ts";
export { embeddedAdapter, embeddedEngines, embeddedModelOf } from "./adapter.ts";
export { embeddedBuild } from "./core.ts";
export { evaluate, type LocalOptions, type StepReport, trainLocally } from "./local.ts";
export { type ModelConfig, modelIdOf, parametersOf, tensorsOf } from "./model-config.ts";
export { createEmbeddedPolicyEngine, type EmbeddedPolicyOptions, type EmbeddedTrainer } from "./policy-engine.ts";
export {
  checkRanks,
  type RankPart,
  type RankSection,
  rankSectionOf,
  rankTensorsOf,
} from "./ranks/rank-section.ts";
export { createEmbeddedRolloutEngine, type EmbeddedRolloutOptions } from "./rollout-engine.ts";
export { defaultModelOf, type WarmStart, type WarmStartOptions, warmStart } from "./warm-start.ts";
