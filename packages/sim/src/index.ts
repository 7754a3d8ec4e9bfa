export type { Canary } from "./canaries/canary.ts";
export { type CanaryResult, canaries, runCanary } from "./canaries/run-canaries.ts";
export { type ChaosResult, resultOf as chaosResult } from "./chaos/result.ts";
export { chaosText } from "./chaos/result-text.ts";
export { type ChaosOptions, chaosJobName, runQuietly, runWithFaults } from "./chaos/run-chaos.ts";
export {
  type ChaosFault,
  type ChaosKind,
  type ChaosWish,
  chaosKinds,
  chaosWishOf,
  drawSchedule,
} from "./chaos/schedule.ts";
export type { Scenario, WorkModel } from "./cluster/scenario.ts";
export type { Fault } from "./faults/fault.ts";
export { points } from "./faults/points.ts";
export { realScenario, runOnBroker } from "./real/run-on-broker.ts";
export { canariesText, canaryText, failureText, injectedIn, speedUpOf, summaryText } from "./report.ts";
export { type Coverage, coverageOf } from "./seed/coverage.ts";
export { drawScenario, type Profile, profiles } from "./seed/draw-scenario.ts";
export { readScenario, type ScenarioFile } from "./seed/read-scenario.ts";
export { type RunManyOptions, type RunManyResult, runMany } from "./seed/run-many.ts";
export { type RunResult, runScenario } from "./seed/run-scenario.ts";
export { runAndCompare, runSeed } from "./seed/run-seed.ts";
export { shrink } from "./seed/shrink.ts";
export { type SimWorker, startWorker } from "./seed/workers.ts";
