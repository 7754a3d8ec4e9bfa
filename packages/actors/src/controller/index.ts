/** The controller of a job: its term, its journal, and who reads that. Its process loads it, and those who audit a job. */
export { newestCheckpointName, newestVerifiedCheckpoint } from "@muster/checkpoint";
export type { Controller, ControllerEnd, ControllerOptions } from "./controller-options.ts";
export { decodeRecord, type JournalRecord, type SnapshotPart } from "./journal-record.ts";
export type { ControllerLogic } from "./journal-replay.ts";
export { decodeSnapshot, PartCollector, type SnapshotContent } from "./journal-snapshot.ts";
export { type Announcement, type MachineEffect, OpenEndKeeper, type OpenEnds } from "./open-ends.ts";
export { type ForeignRecords, RecordChain } from "./record-chain.ts";
export { rulesOfProgram } from "./rules.ts";
export { type StandbyEnd, type StandbyOptions, standBy } from "./standby.ts";
export { startController } from "./start-controller.ts";
