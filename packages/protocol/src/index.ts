/** The library of schemas: tables of engines are made with the copy that checks them. */
export { z } from "zod";
export type { Arrival } from "./bare-command.ts";
export { type BatchSpan, groupsAt, placeAt, positionOf, spansOf } from "./batch-sizes.ts";
export {
  type BegunGroup,
  type BegunPart,
  type BegunTrajectory,
  type BegunTurn,
  begunMax,
  fromGroupsBegun,
  joinBegun,
  partSince,
  toGroupsBegun,
  wholePart,
} from "./begun.ts";
export { type CheckpointName, formatCheckpointName, parseCheckpointName } from "./checkpoint-name.ts";
export {
  type AnyMessage,
  checkMinor,
  decodeMessage,
  decodeSealed,
  encodeMessage,
  isMalformed,
  type Message,
  type Peeked,
  type PiecedBody,
  pack,
  peekMessage,
  readPiecedBody,
  readPlain,
  type SealedMessage,
  unpack,
  unseal,
} from "./codec.ts";
export { deviceSchema, devicesMax, doubledOf, isUniqueName } from "./devices.ts";
export {
  type Envelope,
  envelopeSchema,
  payloadBytesMax,
  protocolMinorLeast,
  smallBytesMax,
  storedBytesMax,
} from "./envelope.ts";
export { createEnveloper, type Enveloper, type Identity, type StampOptions } from "./enveloper.ts";
export {
  actionsByKind,
  decideFailure,
  type FailureAction,
  type FailureDecision,
  type FailureKind,
  type FailurePolicy,
  type FailureRule,
  failureDefaults,
  failureKinds,
  failureRuleOf,
} from "./failure.ts";
export { protocolFolder } from "./folder.ts";
export { bodyBytesMax, type GroupShape, groupBytesMax, packedBytesAtMost } from "./group-size.ts";
export {
  checkId,
  groupIdOf,
  idSchema,
  type MemberRole,
  memberRoles,
  perMemberRole,
  type Role,
  roles,
} from "./ids.ts";
export {
  type JobConfig,
  jobConfigSchema,
  minibatchesMax,
  promptsTask,
  readJobConfig,
  samplesMax,
} from "./job-config.ts";
export {
  type ComponentFigures,
  type RewardComponent,
  type StepComponent,
  stepComponentsMax,
} from "./judgement.ts";
export { barrierDecisionMax, barrierPolicies, barrierRangesMax, barrierRanksMax } from "./messages/barrier.ts";
export type { Direction, MessageDefinition } from "./messages/define.ts";
export { type CommandKind, commandKinds, fleetHealths, killSignals } from "./messages/fleet.ts";
export type { GroupReceipt, PartialGroup, WorkItem } from "./messages/groups.ts";
export { type Body, isKind, type Kind, type KindOf, kindsSaidBy, maySay, messageTable } from "./messages/index.ts";
export type { Ledger } from "./messages/job.ts";
export { type NodeCapability, nodeCapabilities } from "./messages/node.ts";
export {
  type CauseCount,
  digestsOf,
  type EngineSaid,
  type EvidenceKind,
  engineKindsMax,
  evidenceKinds,
  type Holder,
  holderSchema,
  partOf,
  type Section,
  sectionSchema,
  sectionsOfPart,
  shardsMax,
  type TensorTable,
  type VersionPart,
  versionParts,
} from "./messages/parts.ts";
export { importReceiptsMax, type RlPhase, rlPhases } from "./messages/phases.ts";
export { type BatchFigures, type BatchPart, figureMax, type StepStats, sketchLength } from "./messages/step.ts";
export { type MeshTimes, meshTimesOf, type PullTimes, pullTimesOf } from "./order-times.ts";
export { flawOf } from "./outgoing.ts";
export { firstSeqOf, type PiecedKind, piecedBytesMax, piecesMax, placeOf, type StreamPlace } from "./pieces.ts";
export { nodeRanksMax, processNameOf, processOf, type RankOrder } from "./ranks.ts";
export type { RefusalReason } from "./refusal.ts";
export { perRole, type ReplicaRole, type RoleTraits, replicaRoles, traitsOf } from "./role-table.ts";
export { narrowBounds, wideBounds } from "./scan.ts";
export { type ScorerConfig, workerReward } from "./scorer-config.ts";
export {
  type ChangedSettings,
  changedSettingsSchema,
  changesMax,
  type Settings,
  type StepSize,
  settingKeys,
  settingsAt,
  settingsSchema,
  settingsText,
  stepsAfter,
  withSettings,
} from "./settings.ts";
export { decodeStatus, encodeStatus, type JobStatus, type MemberStatus, statusKey, statusSchema } from "./status.ts";
export {
  type FigureName,
  figureMetricOf,
  figureNameOf,
  figuresOf,
  type StepFigure,
  stepFigures,
} from "./step-figures.ts";
export { type Subjects, senderOfSubject, subjectsOf, subjectTable } from "./subjects.ts";
export {
  type AlgorithmName,
  aggregations,
  algorithmDefaults,
  algorithmNames,
  isSupervised,
  klEstimators,
  klPlaces,
  lrSchedules,
  staleCorrections,
  type Training,
  trainingDefaults,
  validMinOf,
} from "./training.ts";
export {
  fromGroupsBatch,
  type Segment,
  type Trajectory,
  type TrajectoryError,
  type TrajectoryGroup,
  toGroupsBatch,
} from "./trajectory.ts";
