export { changeLine, changesName, readChanges, type SaidChange } from "./run/changes.ts";
export { type CheckRunOptions, checkRun, type JournalBytes, type RunAudit } from "./run/check-run.ts";
export { beginsRow, type EventFields, type EventLine, eventLine, placeOf } from "./run/event-line.ts";
export type { Finding, Unchecked } from "./run/findings.ts";
export { partName, partNumbers, partsIn } from "./run/parts.ts";
export { firstLine, type PlacedLine, readLines } from "./run/read-lines.ts";
export { isRunning, lastRow, openRunFolder, type RunFolder } from "./run/run-folder.ts";
