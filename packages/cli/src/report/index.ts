/** The results of a run: for the terminal while it goes and when it ends, and as a page to keep. */
export { htmlReport } from "./html-report.ts";
export {
  type AliveCounts,
  createProgress,
  type Progress,
} from "./progress.ts";
export { ledgerEquation, summaryText } from "./summary-text.ts";
export { terminalCurve } from "./terminal-curve.ts";
export { cleanBlock, cleanLine } from "./text.ts";
export type {
  CauseRecord,
  EvaluationRecord,
  Incident,
  MemberRecord,
  RunRecord,
  RunStatus,
  RunSummary,
  SampleRecord,
  StepRecord,
} from "./types.ts";
