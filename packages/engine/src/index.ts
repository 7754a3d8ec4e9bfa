export { type AgentOptions, agentCommandOf } from "./agent/agent-command.ts";
export { agentFunction } from "./agent/agent-function.ts";
export { batchFiguresOf, referenceKlOf } from "./algorithms/batch-figures.ts";
export { advantagesOf } from "./algorithms/grpo.ts";
export { lossOf } from "./algorithms/loss-needs.ts";
export { type Minibatch, type PlanOptions, planMinibatches } from "./algorithms/plan-minibatches.ts";
export { referenceLogprobsOf } from "./algorithms/reference-logprobs.ts";
export { type ResponseLoss, responseLoss, type TokenLoss } from "./algorithms/response-loss.ts";
export { type LearningRate, learningRateAt } from "./algorithms/schedules.ts";
export type { CollectOptions, GroupPrompt, HandBack } from "./collect/collect-options.ts";
export { failureKindOf } from "./collect/failure-kind.ts";
export type { GenerateFunction } from "./collect/generate-function.ts";
export { givenAnswers } from "./collect/given-answer.ts";
export { placeholderOf } from "./collect/placeholder.ts";
export { claimTrajectoryFault } from "./collect/trajectory-scope.ts";
export { collectGroups } from "./collect-group.ts";
export type {
  AccumulateOptions,
  BegunResponse,
  EngineInfo,
  Generated,
  GenerateRequest,
  HealthState,
  LossFeature,
  LossOptions,
  OptimizerOptions,
  PolicyEngine,
  PolicyInfo,
  RankTensor,
  Reward,
  RewardInput,
  RolloutEngine,
  SamplingOptions,
  SectionSource,
  ShardStats,
  StageOptions,
  StateSections,
  StateSource,
  StateViews,
  TrainSample,
  WeightUpdate,
} from "./engine.ts";
export {
  type GradientMemory,
  type GradientWindow,
  gradientThrough,
  gradientWindowMax,
} from "./gradient-memory.ts";
export { inlineState } from "./inline-weights.ts";
export { loadAdapter } from "./load-module.ts";
export { loadGenerate, loadReward } from "./modules/load-function.ts";
export { openModuleGenerate } from "./modules/open-modules.ts";
export { openReferenceOf } from "./open-reference.ts";
export { endProcess } from "./programs/end-process.ts";
export { isOfLife, keptLimitOf, lifeWords } from "./programs/kept-limit.ts";
export type {
  EngineAdapter,
  EngineDescription,
  EngineFinding,
  EngineOpening,
  EngineOptions,
  EngineProblem,
  EngineRole,
  RankProgram,
  ReplicaRank,
} from "./registry/adapter.ts";
export { type Contradiction, type DeterminismLevel, determinismLevels } from "./registry/contradictions.ts";
export { EngineRegistry } from "./registry/engine-registry.ts";
export type { RankCut, RankLayout, RankShards, ShardTensor } from "./registry/rank-layout.ts";
export type { RankState, RankTraining } from "./registry/rank-training.ts";
export {
  conversionOf,
  type FormatDifference,
  formatDifference,
  tensorDifference,
  type WeightFormat,
} from "./registry/weight-format.ts";
export { reservePort } from "./reserve-port.ts";
export { isModulePath, isProgramPath, openRewardOf } from "./rewards/open-reward.ts";
export { bytesIn, copyBytes, piecesWithPlaces, roomFor, sectionPieceMax } from "./section-bytes.ts";
export { sketchOf } from "./sketch.ts";
