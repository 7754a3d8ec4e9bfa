export { newestCheckpointName, newestVerifiedCheckpoint } from "@muster/checkpoint";
export { checkpointRoleOn } from "./checkpoint/checkpoint-work.ts";
export type { Controller, ControllerEnd, ControllerOptions } from "./controller/controller-options.ts";
export {
  decodeRecord,
  encodePart,
  encodeRecord,
  type JournalRecord,
  type SnapshotPart,
} from "./controller/journal-record.ts";
export {
  type ControllerLogic,
  type ControllerSnapshot,
  type Replayed,
  replayJournal,
} from "./controller/journal-replay.ts";
export {
  decodeSnapshot,
  encodeSnapshot,
  PartCollector,
  partsOf,
  type SnapshotContent,
  snapshotVersion,
} from "./controller/journal-snapshot.ts";
export { snapshotIdEnd } from "./controller/journal-writer.ts";
export { type Announcement, type MachineEffect, OpenEndKeeper, type OpenEnds } from "./controller/open-ends.ts";
export { type ForeignRecords, RecordChain } from "./controller/record-chain.ts";
export { rulesOfProgram } from "./controller/rules.ts";
export { type StandbyEnd, type StandbyOptions, standBy } from "./controller/standby.ts";
export { startController } from "./controller/start-controller.ts";
export { statusOf } from "./controller/status.ts";
export { type Doors, hostDoors } from "./doors.ts";
export type { Beats, Environment } from "./environment.ts";
export { fetchBody } from "./groups/fetch.ts";
export { type StoreTools, type Storing, storeBody } from "./groups/store.ts";
export { findDevices } from "./node/devices.ts";
export type { HostSigns } from "./node/host-signs.ts";
export type { KeeperDoor, KeeperExit, KeeperGiven, StartOrder } from "./node/keeper.ts";
export { LastEnd } from "./node/last-end.ts";
export { type NodeRoleOnOptions, type NodeRoleOptions, nodeRole, nodeRoleOn } from "./node/node-work.ts";
export { readRankConfig } from "./node/rank-config.ts";
export { rankOfEnvironment } from "./node/rank-environment.ts";
export { policyRoleOn } from "./policy/policy-work.ts";
export { type Replica, runReplica } from "./replica/replica.ts";
export type { ReplicaEnd, ReplicaOptions, Role } from "./replica/work.ts";
export { rolloutRoleOn } from "./rollout/rollout-work.ts";
