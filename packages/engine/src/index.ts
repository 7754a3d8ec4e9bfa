export {
  advantagesOf,
  type LearningRate,
  learningRateAt,
  type Surrogate,
  surrogateOf,
} from "./algorithms/grpo.ts";
export { type Minibatch, type PlanOptions, planMinibatches } from "./algorithms/plan-minibatches.ts";
export { failureKindOf } from "./collect/failure-kind.ts";
export type {
  EngineHandle,
  GenerateContext,
  GenerateFunction,
  ModuleResponse,
  TurnRequest,
} from "./collect/generate-function.ts";
export { placeholderOf } from "./collect/placeholder.ts";
export { claimTrajectoryFault } from "./collect/trajectory-scope.ts";
export { type CollectOptions, collectGroups, type GroupPrompt, type HandBack } from "./collect-group.ts";
export { embeddedBuild } from "./embedded/core.ts";
export { type ModelConfig, modelIdOf, parametersOf, tensorsOf } from "./embedded/model-config.ts";
export { createEmbeddedPolicyEngine, type EmbeddedPolicyOptions } from "./embedded/policy-engine.ts";
export {
  checkRanks,
  type RankPart,
  type RankSection,
  type RankTensor,
  rankSectionOf,
  rankTensorsOf,
} from "./embedded/ranks/rank-section.ts";
export { createEmbeddedRolloutEngine, type EmbeddedRolloutOptions } from "./embedded/rollout-engine.ts";
export type {
  AccumulateOptions,
  BegunResponse,
  EngineInfo,
  Generated,
  GenerateRequest,
  HealthState,
  OptimizerOptions,
  PolicyEngine,
  PolicyInfo,
  Prompt,
  Reward,
  RewardInput,
  RolloutEngine,
  SamplingOptions,
  SectionSource,
  ShardStats,
  StateSections,
  StateSource,
  Task,
  TrainSample,
  WeightUpdate,
} from "./engine.ts";
export { hfConfigOf, loadHfFolder, saveHfFolder } from "./hf-folder.ts";
export { inlineState, inlineWeights } from "./inline-weights.ts";
export { loadGenerate, loadReward, type RewardFunction } from "./load-module.ts";
export { evaluate, type LocalOptions, type StepReport, trainLocally } from "./local.ts";
export { rewardOf, taskOf } from "./tasks/registry.ts";
export { defaultModelOf, type WarmStart, type WarmStartOptions, warmStart } from "./warm-start.ts";
