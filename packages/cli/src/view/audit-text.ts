/** An audit of a run, for a person. Pure. */
import type { Finding, RunAudit } from "@muster/check";
import { cleanLine } from "../report/text.ts";

/** Writes it: what was found and what that means, what was looked at, what was not and why. */
export function auditText({ job, found, violations, checked, unchecked, notes }: RunAudit): string {
  const { events, commits, terms, records, checkpoints, metrics } = checked;
  const counted = [
    count(events, "event"),
    count(commits, "commit"),
    count(terms, "term"),
    count(records, "record of the journal", "records of the journal"),
    count(checkpoints, "whole checkpoint"),
    count(metrics, "line of metrics", "lines of metrics"),
  ];
  const more = found > violations.length ? [`  and ${found - violations.length} more`] : [];
  return [
    `${job}: ${found === 0 ? "all that was checked holds" : `${count(found, "violation")}`}`,
    ...violations.flatMap(findingLines),
    ...more,
    `checked      ${counted.join(", ")}`,
    ...unchecked.map(({ what, why }) => `not checked  ${cleanLine(`${what}: ${why}`)}`),
    ...notes.map((note) => `note         ${cleanLine(note)}`),
  ].join("\n");
}

function findingLines({ rule, file, line, seq, says, means }: Finding): readonly string[] {
  const at = [file, line === null ? "" : `line ${line}`, seq === null ? "" : seqText(file, seq)].filter(
    (text) => text !== "",
  );
  return [`! ${cleanLine(`${at.join(", ")}: ${says}`)}`, `    ${rule === "file" ? "" : `${rule}: `}${means}`];
}

/** Places in the stream of events are those of events, in the journal those of records. */
function seqText(file: string, seq: number): string {
  return `${file.startsWith("events") ? "event" : "record"} ${seq}`;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en-US")} ${number === 1 ? one : many}`;
}
