export { type JournalAudit, JournalAuditor } from "./journal-auditor.ts";
export type { Violation } from "./judge.ts";
