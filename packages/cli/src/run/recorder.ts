/** Makes the record of a run from its public events: what the summary and the report show. It believes events, not the controller. */

import type { EventMessage } from "@muster/client";
import { causeKeyOf } from "@muster/machines";
import { type Body, settingsText } from "@muster/protocol";
import type {
  CauseRecord,
  EvaluationRecord,
  MemberRecord,
  RunRecord,
  RunStatus,
  RunSummary,
  SampleRecord,
  StepRecord,
} from "../report/index.ts";
import { IncidentBook, type Injection } from "./incident-book.ts";
import { JobClock } from "./job-clock.ts";
import { standingBests, standingEvaluations, standingOf } from "./standing.ts";
import { stepRecordOf, withSpeeds } from "./step-record.ts";

/** Follows the events of one run. */
export interface Recorder {
  /** Takes the next event. @returns Its time in ms since the job's first one. */
  take(message: EventMessage): number;
  /** The broker ended at a wall time; it is started again. */
  brokerEnded(detail: string, wallMs: number): void;
  /** A disk of the job was full at a wall time. */
  diskFull(detail: string, wallMs: number): void;
  ended(): Body<"job.ended"> | null;
  record(run: {
    readonly job: string;
    readonly seed: number;
    readonly configText: string;
    readonly status: RunStatus;
    readonly samples: readonly SampleRecord[];
    /** Faults that `muster chaos` did, at wall times. */
    readonly injections: readonly Injection[];
  }): RunRecord;
}

/** A commit: what it did, and the job as it was then. */
interface Commit extends Pick<Body<"step.committed">, "lineage" | "version" | "sections" | "ledger"> {
  record: Omit<StepRecord, "tokens_per_s">;
}

const edge = 10;

/** Commits whose replicas' versions are remembered. */
const heldMax = 5_000;

/** Starts an empty record. */
export function createRecorder(): Recorder {
  const commits: Commit[] = [];
  const evaluations: Body<"eval.finished">[] = [];
  let bests: readonly Body<"checkpoint.best">[] = [];
  const members = new Map<string, MemberRecord>();
  const causes = new Map<string, CauseRecord>();
  const book = new IncidentBook();
  const trained = new Map<string, number>();
  const clock = new JobClock();
  const changes: Body<"job.changed">[] = [];
  let ended: Body<"job.ended"> | null = null;

  const take = (message: EventMessage): number => {
    const { kind, body } = message;
    const atMs = clock.take(message);
    if (kind === "step.committed") {
      const { lineage, version, sections, ledger } = body;
      commits.push({ lineage, version, sections, ledger, record: stepRecordOf(body, atMs) });
      bests = standingBests(bests, body);
      const old = commits.at(-1 - heldMax);
      if (old) old.record = { ...old.record, held: null };
      for (const group of body.groups) {
        const key = `${body.lineage}/${group}`;
        trained.set(key, (trained.get(key) ?? 0) + 1);
      }
    } else if (kind === "eval.finished") evaluations.push(body);
    else if (kind === "checkpoint.best") bests = [...bests, body];
    else if (kind === "job.changed") changes.push(body);
    else if (kind === "job.ended") ended = body;
    else if (kind === "member.joined")
      members.set(body.incarnation, { ...body, joined_ms: atMs, left_ms: null, how: null });
    else if (kind === "member.left" || kind === "member.died") {
      const how = kind === "member.left" ? "left" : "died";
      const known = members.get(body.incarnation);
      if (known) members.set(body.incarnation, { ...known, left_ms: atMs, how });
    }
    if (kind === "groups.aborted") countCause(causes, body);
    book.take(message, atMs);
    return atMs;
  };

  return {
    take,
    brokerEnded: (detail, wallMs) => book.brokerEnded(detail, clock.at(wallMs)),
    diskFull: (detail, wallMs) => book.diskFull(detail, clock.at(wallMs)),
    ended: () => ended,
    record({ job, seed, configText, status, samples, injections }) {
      const doubled = [...trained.values()].filter((count) => count > 1).length;
      const standing = standingOf(commits, ended);
      const final = ended ?? standing.at(-1) ?? null;
      const steps = withSpeeds(standing.map(({ record }) => record));
      const evals = standingEvaluations(evaluations, final?.version ?? 0).map(evaluationRecordOf);
      const faults = injections.map(({ atMs, id }) => ({ atMs: clock.at(atMs), id }));
      const wallMs = clock.nowMs;
      const [best = null] = standingBests(bests, pointAfter(ended)).slice(-1);
      const summary = summaryOf({ job, seed, wallMs, steps, evals, best, book, injections: faults, doubled, final });
      const sorted = [...causes.values()].sort((a, b) => b.count - a.count);
      return {
        status,
        summary,
        steps,
        evals,
        members: [...members.values()],
        causes: sorted,
        samples,
        config_text: withChanges(configText, changes),
      };
    },
  };
}

/** The configuration, and below it what was changed since. */
function withChanges(configText: string, changes: readonly Body<"job.changed">[]): string {
  const texts = changes.map(
    ({ fromStep, settings }) => `# from step ${fromStep} on\n${settingsText(settings).replaceAll(", ", "\n")}\n`,
  );
  return texts.length > 0 ? [configText, "# Changed since", ...texts].join("\n") : configText;
}

/** Root causes are counted by class and top frame, as the controller does; the first one is shown. */
function countCause(causes: Map<string, CauseRecord>, body: Body<"groups.aborted">): void {
  const { name, message, frame = null, stack = null, sample = null, count } = body;
  const key = causeKeyOf(body);
  const known = causes.get(key);
  causes.set(key, known ? { ...known, count: known.count + count } : { name, message, frame, stack, sample, count });
}

function evaluationRecordOf({ version, correct, prompts }: Body<"eval.finished">): EvaluationRecord {
  return { version, accuracy: correct / Math.max(1, prompts) };
}

/** Where a job would go on after its end. */
function pointAfter(ended: Body<"job.ended"> | null): { readonly lineage: number; readonly version: number } {
  return ended ? { lineage: ended.lineage, version: ended.version + 1 } : { lineage: 0, version: 0 };
}

function bestRecordOf({ step, path, correct, prompts }: Body<"checkpoint.best">): RunSummary["best_checkpoint"] {
  return { step, path, accuracy: correct / Math.max(1, prompts) };
}

function summaryOf(run: {
  readonly job: string;
  readonly seed: number;
  readonly wallMs: number;
  readonly steps: readonly StepRecord[];
  readonly evals: readonly EvaluationRecord[];
  readonly best: Body<"checkpoint.best"> | null;
  readonly book: IncidentBook;
  readonly injections: readonly Injection[];
  readonly doubled: number;
  readonly final: Pick<Body<"job.ended">, "version" | "sections" | "ledger"> | null;
}): RunSummary {
  const { steps, evals, final } = run;
  const ledger = final?.ledger ?? { admitted: 0, trained: 0, aborted: 0, quarantined: 0, pending: 0 };
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  const meanReward = (part: readonly StepRecord[]): number | null =>
    part.length === 0 ? null : part.reduce((sum, { reward }) => sum + reward, 0) / part.length;
  return {
    job: run.job,
    seed: run.seed,
    steps: steps.at(-1)?.step ?? 0,
    reward_first: meanReward(steps.slice(0, edge)),
    reward_last: meanReward(steps.slice(-edge)),
    eval_first: evals[0]?.accuracy ?? null,
    eval_last: evals.at(-1)?.accuracy ?? null,
    best_checkpoint: run.best && bestRecordOf(run.best),
    weight_version: final?.version ?? 0,
    weights_hash: final?.sections.find(({ name }) => name === "weights")?.digest ?? "",
    ledger,
    lost: ledger.admitted - ledger.trained - ledger.aborted - ledger.quarantined - ledger.pending,
    doubled: run.doubled,
    incidents: run.book.incidents(run.injections),
    ettr: run.book.ettr,
    tokens_wasted: run.book.tokensWasted,
    wall_s: run.wallMs / 1000,
    tokens_per_s: tokens / Math.max(0.001, run.wallMs / 1000),
  };
}
