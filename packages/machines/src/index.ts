export {
  type CheckpointEffect,
  type CheckpointEvent,
  type CheckpointInput,
  checkpointLogic,
} from "./checkpoint/checkpoint-machine.ts";
export {
  type ControllerContext,
  controllerLogic,
  controllerSnapshotOf,
  phaseOf,
} from "./controller/controller-machine.ts";
export type {
  AnnounceEffect,
  AnswerEffect,
  CommandEffect,
  ControllerEffect,
  ControllerEvent,
  ElectedEvent,
  FilledEvent,
  FoundCheckpoint,
  ReportOf,
  Rules,
  TickEvent,
  VerdictEvent,
} from "./controller/events.ts";
export type { FleetHealth, FleetRank, FleetReplica, FleetState } from "./controller/fleet/fleet-state.ts";
export { isCordoned } from "./controller/fleet/fleet-state.ts";
export { missingOf } from "./controller/fleet/plan-fleet.ts";
export { processesOf, ranksOf } from "./controller/fleet/ranks.ts";
export { causeKeyOf } from "./controller/groups/given-up.ts";
export { imbalanceOf, ledgerOf } from "./controller/groups/ledger.ts";
export { isFillNews } from "./controller/groups/stream-room.ts";
export { mayPass, mayWait } from "./controller/patience.ts";
export { type ControllerPlan, planOf } from "./controller/plan.ts";
export { allMembersOf, type ControllerState, countOf, type Member, membersOf } from "./controller/state.ts";
export type { Fill } from "./controller/step/step-state.ts";
export { FailureDetector } from "./detector/failure-detector.ts";
export { localHealth, type SelfObservation } from "./detector/local-health.ts";
export { type DetectorTiming, detectionPatience, detectorTimingOf } from "./detector/timing.ts";
export type { BeatSeen, Look, Probe, Verdict, Watched } from "./detector/verdict.ts";
export { machinesFolder } from "./folder.ts";
export {
  applyFact,
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
export { scriptPhaseOf } from "./phases/script-phase.ts";
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
