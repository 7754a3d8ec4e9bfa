export { changeLine, changesName, readChanges, type SaidChange } from "./run/changes.ts";
export { type CheckRunOptions, checkRun, type JournalBytes, type RunAudit } from "./run/check-run.ts";
export type { Finding, Unchecked } from "./run/findings.ts";
