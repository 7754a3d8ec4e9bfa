/** The second door: the checkers one by one, for the simulator and for tests. */
export type { Allowance } from "./allowance.ts";
export { BlameChecker } from "./blame-checker.ts";
export { BudgetChecker } from "./budget-checker.ts";
export { CheckpointChecker } from "./checkpoint-checker.ts";
export { ownDigest } from "./digest.ts";
export { auditFacts, FactChecker, type PublicFact } from "./fact-checker.ts";
export { FleetChecker } from "./fleet-checker.ts";
export { type JournalAudit, JournalAuditor } from "./journal-auditor.ts";
export { type Decision, JournalModel } from "./journal-model.ts";
export { Judge, type Violation } from "./judge.ts";
export { LossChecker } from "./loss-checker.ts";
export { MembershipChecker, type Outage } from "./membership-checker.ts";
export { MemoryChecker } from "./memory-checker.ts";
export { OrderChecker } from "./order-checker.ts";
export { ProgressChecker } from "./progress-checker.ts";
export { SeenPieces } from "./seen-pieces.ts";
export { TrainingChecker } from "./training-checker.ts";
export { WeightsChecker } from "./weights-checker.ts";
