/** An audit of a run by what it left behind: events, journal, checkpoints, metrics. Reads each file once or twice, and holds none of them. */
import { statSync } from "node:fs";
import { basename, join } from "node:path";
import { rulesOfProgram } from "@muster/actors/controller";
import { type Body, parseCheckpointName } from "@muster/protocol";
import { type JournalAudit, JournalAuditor } from "../journal-auditor.ts";
import { checkCheckpoints, findCheckpoints } from "./check-checkpoints.ts";
import { checkEvents } from "./check-events.ts";
import { checkMetrics, checkSummary, readSummary } from "./check-metrics.ts";
import { firstPoint, JournalCommits, lastPoint, type Point, Standing, WantedVersions } from "./commits.ts";
import { type Finding, Findings, type Unchecked } from "./findings.ts";
import { partsIn } from "./parts.ts";
import { lastRow, type RunFolder } from "./run-folder.ts";

/** A record of the journal. */
export interface JournalBytes {
  readonly seq: number;
  readonly data: Uint8Array;
}

/** How to audit. */
export interface CheckRunOptions {
  /** The records of the journal, or why they can not be had. */
  readonly journal: AsyncIterable<JournalBytes> | { readonly missing: string };
  /** Hears now and then how much was read; of what is read more than once, each time counts. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/** What an audit comes to. Keys are those of the JSON output. */
export interface RunAudit {
  readonly run: string;
  readonly job: string;
  /** True when nothing was found. */
  readonly ok: boolean;
  readonly checked: {
    readonly events: number;
    readonly commits: number;
    readonly terms: number;
    readonly records: number;
    readonly checkpoints: number;
    readonly metrics: number;
  };
  /** How many; the list ends with the first 200. */
  readonly found: number;
  readonly violations: readonly Finding[];
  readonly unchecked: readonly Unchecked[];
  /** Unusual, and not wrong. */
  readonly notes: readonly string[];
}

/** Checkpoints of which the job's own words are remembered; retention keeps far fewer. */
const keptMax = 4_096;

/** Audits a run. @throws The reason of the signal, and errors of the disk. */
export async function checkRun(folder: RunFolder, options: CheckRunOptions): Promise<RunAudit> {
  const findings = new Findings();
  const { signal } = options;
  const progress = progressOf(folder, options);
  const journal = await checkJournal(folder, findings, options);
  const checkpoints = findCheckpoints(folder);
  const versions = new WantedVersions(checkpoints.names.flatMap((name) => parseCheckpointName(name)?.version ?? []));
  const standing = new Standing();
  const kept = new Map<string, Body<"checkpoint.kept">>();
  let ended: Body<"job.ended"> | null = null;
  let first: Point | null = null;
  let last = firstPoint;
  const events = await checkEvents(folder, {
    findings,
    signal,
    onBytes: progress,
    onFact: ({ kind, body }, isLast) => {
      if (kind === "checkpoint.kept") rememberKept(kept, body);
      if (kind === "job.ended" && isLast) {
        ended = body;
        standing.ended(body);
      }
      if (kind !== "step.committed") return;
      versions.committed(body);
      if (!isLast) return;
      standing.committed(body);
      first ??= body;
      last = body;
      const flaw = journal.commits?.take(body) ?? null;
      findings.require(flaw === null, "S10", () => flaw ?? "");
    },
  });
  if (folder.events.length === 0)
    findings.skip("events", "there is no events.jsonl: the job's controller was started by hand, or never began");
  findings.at({ file: folder.events.at(-1) ?? "events.jsonl" });
  // The end of a job is told after everything else.
  // The journal may know steps of which the events are gone, or in a row that the broker told before.
  const after = events.isWhole && lastRow(folder) === 0 ? firstPoint : (first ?? lastPoint);
  for (const step of journal.commits?.untold(after, ended ? lastPoint : last) ?? [])
    findings.add("S15", `the journal commits step ${step}, and no event tells of it`);
  const summary = readSummary(folder, findings);
  const metrics = await checkMetrics(folder, summary, {
    ...{ findings, standing, signal, onBytes: progress },
    mayBeginBefore: !events.isWhole || lastRow(folder) > 0,
  });
  if (summary && ended) checkSummary(summary, ended, findings);
  const given = { findings, kept, versions, isWhole: events.isWhole, signal, onBytes: progress };
  const whole = await checkCheckpoints(folder, checkpoints, given);
  if (folder.isRunning) findings.notes.push("the run goes on: what it writes meanwhile is not looked at");
  const { commits, terms } = events;
  return {
    run: folder.path,
    job: folder.config.job,
    ok: findings.count === 0,
    checked: { events: events.events, commits, terms, records: journal.records, checkpoints: whole, metrics },
    found: findings.count,
    violations: findings.list,
    unchecked: findings.unchecked,
    notes: findings.notes,
  };
}

function rememberKept(kept: Map<string, Body<"checkpoint.kept">>, body: Body<"checkpoint.kept">): void {
  const name = basename(body.path);
  kept.delete(name);
  kept.set(name, body);
  const [oldest] = kept.keys();
  if (kept.size > keptMax && oldest !== undefined) kept.delete(oldest);
}

async function checkJournal(
  { config }: RunFolder,
  findings: Findings,
  { journal, signal }: CheckRunOptions,
): Promise<{ readonly records: number; readonly commits: JournalCommits | null }> {
  if ("missing" in journal) {
    findings.skip("the journal", journal.missing);
    return { records: 0, commits: null };
  }
  const commits = new JournalCommits();
  const auditor = new JournalAuditor(config, {
    mayBeginLate: true,
    rules: rulesOfProgram(),
    onCommit: (weights, step) => commits.add({ ...weights, step }),
  });
  let known = 0;
  for await (const { seq, data } of journal) {
    signal?.throwIfAborted();
    auditor.take(seq, data);
    for (const { invariant, detail } of auditor.violations.slice(known))
      findings.add(invariant, detail, { file: journalFile, seq });
    known = auditor.violations.length;
  }
  const { records, folded, firstSeq, violations } = concludeJournal(auditor, findings);
  commits.isWhole = firstSeq === 1 && folded === records && violations.length === 0;
  return { records, commits };
}

const journalFile = "the journal";

function concludeJournal(auditor: JournalAuditor, findings: Findings): JournalAudit {
  const audit = auditor.audit();
  const { records, firstSeq, folded, otherRules, foreign, violations, replicasBitwiseEqual } = audit;
  for (const { invariant, detail } of violations)
    if (invariant === "audit")
      findings.add("S4", `it can not be read on: ${detail}`, { file: journalFile, seq: auditor.nextSeq - 1 });
  if (records === 0) findings.skip(journalFile, "it is empty");
  if (firstSeq > 1)
    findings.skip(
      `records 1 to ${firstSeq - 1} of the journal`,
      "a snapshot stands in for them; they were removed when it was written",
    );
  if (otherRules)
    findings.skip(
      `what follows from ${records - folded} records of the journal`,
      `Muster ${otherRules.build ?? "of an earlier version"} wrote them by other rules; check the run with that version`,
    );
  if (foreign.count > 0)
    findings.notes.push(`${foreign.count} records of the journal are of nobody (${foreign.first})`);
  if (!replicasBitwiseEqual)
    findings.notes.push(
      "replicas computed different weights in at least one step; those of the majority were committed",
    );
  return audit;
}

/** Counts bytes towards what there is to read. */
function progressOf(folder: RunFolder, { onProgress }: CheckRunOptions): (bytes: number) => void {
  const { path, events } = folder;
  const sizeOf = (name: string): number => statSync(join(path, name), { throwIfNoEntry: false })?.size ?? 0;
  const read = [...events, ...events.slice(lastRow(folder)), ...partsIn(path, "metrics")];
  const total = read.reduce((sum, name) => sum + sizeOf(name), 0);
  let done = 0;
  return (bytes) => {
    done += bytes;
    onProgress?.(Math.min(done, total), total);
  };
}
