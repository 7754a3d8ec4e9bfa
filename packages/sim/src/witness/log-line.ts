import type { AnyMessage } from "@muster/protocol";

/** What a reader of the log wants to know of a message; `null` when its name says enough. */
export function lineOf({ kind, body }: AnyMessage): string | null {
  switch (kind) {
    case "job.ended":
      return `the job ends ${body.outcome}: ${body.reason}`;
    case "alarm.raised":
      return `alarm ${body.alarm}: ${body.detail}`;
    case "step.committed":
      return `step ${body.step} is version ${body.lineage}.${body.version}`;
    case "step.retried":
    case "step.skipped":
      return `${kind} ${body.step}: ${body.reason}`;
    case "member.died":
      return `${body.id} ${body.incarnation} is out: ${body.evidence}`;
    default:
      return null;
  }
}
