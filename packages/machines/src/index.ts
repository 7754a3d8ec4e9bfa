export { causeKeyOf } from "./cause-key.ts";
export {
  type CheckpointEffect,
  type CheckpointEvent,
  type CheckpointInput,
  checkpointLogic,
} from "./checkpoint/checkpoint-machine.ts";
export { FailureDetector } from "./detector/failure-detector.ts";
export { localHealth, type SelfObservation } from "./detector/local-health.ts";
export { type DetectorTiming, detectionPatience, detectorTimingOf } from "./detector/timing.ts";
export type { BeatReading, Look, Probe, Verdict, Watched } from "./detector/verdict.ts";
export { machinesFolder } from "./folder.ts";
export {
  applyFact,
  disturbed,
  emptyIncidentLog,
  ettrOf,
  type Incident,
  type IncidentFact,
  type IncidentLog,
} from "./incidents.ts";
export type { CancelTimer, Logic, StartTimer, Step, TimerEffect } from "./logic.ts";
export {
  type EndOutcome,
  type MembershipEffect,
  type MembershipEvent,
  type MembershipInput,
  membershipLogic,
  registrationOf,
} from "./membership/membership-machine.ts";
export type { NodeContext, NodeEffect, NodeEvent, NodeInput } from "./node/node-events.ts";
export { nodeLogic } from "./node/node-machine.ts";
export { largestRemainder } from "./phases/shares.ts";
export type { AttemptKey, PolicyContext, PolicyEffect, PolicyEvent, PolicyInput } from "./policy/policy-events.ts";
export { policyLogic } from "./policy/policy-machine.ts";
export type {
  CommandEvent,
  DropEffect,
  RegisteredEvent,
  ReportEffect,
  StoppingEvent,
  ToldEvent,
} from "./replica-events.ts";
export type { Chunk, RolloutContext, RolloutEffect, RolloutEvent, RolloutInput } from "./rollout/rollout-events.ts";
export { rolloutLogic } from "./rollout/rollout-machine.ts";
export { type Pair, sideBySide } from "./side-by-side.ts";
export { changedKeys } from "./table/diff.ts";
