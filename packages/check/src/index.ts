export { type CheckRunOptions, checkRun, type JournalBytes, type RunAudit } from "./run/check-run.ts";
export { type EventFields, type EventLine, eventLine } from "./run/event-line.ts";
export type { Finding, Unchecked } from "./run/findings.ts";
export { isRunning, openRunFolder, type RunFolder } from "./run/run-folder.ts";
