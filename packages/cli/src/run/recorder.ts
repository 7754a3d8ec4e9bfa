/** Makes the record of a run from its public events: what the summary and the report show. It believes events, not the controller. */

import type { EventMessage } from "@muster/client";
import { causeKeyOf } from "@muster/machines";
import { type Body, type ChangedSettings, settingsText, stepsAfter } from "@muster/protocol";
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
import { meanOf } from "../report/text.ts";
import { CommitBook } from "./commit-book.ts";
import { IncidentBook, type Injection } from "./incident-book.ts";
import { JobClock } from "./job-clock.ts";
import { standingBests, standingEvaluations } from "./standing.ts";

/** Follows the events of one run. */
export interface Recorder {
  /** The first event that is taken is not the job's first one: it was said at this time of the job. */
  beginAt(atMs: number): void;
  /** Takes the next event. @returns Its time in ms since the job's first one. */
  take(message: EventMessage): number;
  /** The broker ended at a wall time; it is started again. */
  brokerEnded(detail: string, wallMs: number): void;
  /** The broker did not answer any more at a wall time. */
  brokerSilent(detail: string, wallMs: number): void;
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
    /** All changes of the run, where its folder has them; otherwise those that were heard. */
    readonly changes?: readonly ChangedSettings[] | null;
  }): RunRecord;
}

const edge = 10;

/** Groups of which it is remembered that they were trained; nobody trains one again that much later. */
const groupsMax = 100_000;
/** Held-out results; beyond it every second one goes. */
const evaluationsMax = 10_000;
/** Lives of replicas; beyond it the oldest that are over go. */
const livesMax = 10_000;
/** Kinds of causes; more are counted together. */
const causesMax = 1_000;

const others = {
  ...{ name: "others", message: `further causes, after the first ${causesMax}` },
  ...{ frame: null, stack: null, sample: null },
};

/** Starts an empty record. */
export function createRecorder(): Recorder {
  const commits = new CommitBook();
  const evaluations = new Map<number, Body<"eval.finished">>();
  let bests: readonly Body<"checkpoint.best">[] = [];
  const members = new Map<string, MemberRecord>();
  const causes = new Map<string, CauseRecord>();
  const book = new IncidentBook();
  const trained = new TrainedGroups();
  const clock = new JobClock();
  const changes: Body<"job.changed">[] = [];
  let ended: Body<"job.ended"> | null = null;

  const take = (message: EventMessage): number => {
    const { kind, body } = message;
    const atMs = clock.take(message);
    if (kind === "step.committed") {
      commits.add(body, atMs);
      bests = standingBests(bests, body);
      trained.add(body);
    } else if (kind === "eval.finished") evaluated(evaluations, body);
    else if (kind === "checkpoint.best") bests = [...bests, body];
    else if (kind === "job.changed") changes.push(body);
    else if (kind === "job.ended") ended = body;
    else if (kind === "member.joined") joined(members, body, atMs);
    else if (kind === "member.left") gone(members, body, { left_ms: atMs, how: "left" });
    else if (kind === "member.died") gone(members, body, { left_ms: atMs, how: "died" });
    if (kind === "groups.aborted") countCause(causes, body);
    book.take(message, atMs);
    return atMs;
  };

  return {
    beginAt(atMs) {
      clock.beginAt(atMs);
      commits.beginAt(atMs);
    },
    take,
    brokerEnded: (detail, wallMs) => book.brokerEnded(detail, clock.at(wallMs)),
    brokerSilent: (detail, wallMs) => book.brokerSilent(detail, clock.at(wallMs)),
    diskFull: (detail, wallMs) => book.diskFull(detail, clock.at(wallMs)),
    ended: () => ended,
    record({ job, seed, configText, status, samples, injections, changes: stored }) {
      const standing = commits.standing(ended);
      const final = ended ?? standing.at(-1) ?? null;
      const steps = standing.map(({ record, tokensPerS }) => ({ ...record, tokens_per_s: tokensPerS ?? 0 }));
      const tokens = standing.reduce((sum, commit) => sum + commit.tokens, 0);
      const evals = standingEvaluations([...evaluations.values()], final?.version ?? 0).map(evaluationRecordOf);
      const faults = injections.map(({ atMs, id }) => ({ atMs: clock.at(atMs), id }));
      const [wallMs, heardMs] = [clock.nowMs, clock.heardMs];
      const [best = null] = standingBests(bests, pointAfter(ended)).slice(-1);
      const { doubled } = trained;
      const sinceStep = clock.isWhole ? null : (steps[0]?.step ?? null);
      const told = { job, seed, sinceStep, wallMs, heardMs, steps, tokens, evals, best, book, doubled, final };
      const summary = summaryOf({ ...told, injections: faults });
      const sorted = [...causes.values()].sort((a, b) => b.count - a.count);
      return {
        status: { ...status, steps: status.steps === null ? null : stepsAfter(status.steps, stored ?? changes) },
        summary,
        steps,
        evals,
        members: [...members.values()],
        causes: sorted,
        samples,
        config_text: withChanges(configText, stored ?? changes),
      };
    },
  };
}

/** The configuration, and below it what was changed since. */
function withChanges(configText: string, changes: readonly ChangedSettings[]): string {
  const texts = changes.map(
    ({ fromStep, settings }) => `# from step ${fromStep} on\n${settingsText(settings).replaceAll(", ", "\n")}\n`,
  );
  return texts.length > 0 ? [configText, "# Changed since", ...texts].join("\n") : configText;
}

/** Groups that were trained, by lineage: one is trained once. */
class TrainedGroups {
  /** Groups that were trained more than once. */
  doubled = 0;
  /** How often: those that were trained last, and those before them. */
  #newest = new Map<string, number>();
  #before: ReadonlyMap<string, number> = new Map();

  add({ lineage, groups }: Body<"step.committed">): void {
    for (const group of groups) {
      const key = `${lineage}/${group}`;
      const count = (this.#newest.get(key) ?? this.#before.get(key) ?? 0) + 1;
      this.#newest.set(key, count);
      if (count === 2) this.doubled += 1;
    }
    if (this.#newest.size < groupsMax) return;
    this.#before = this.#newest;
    this.#newest = new Map();
  }
}

/** The last result of each version. */
function evaluated(evaluations: Map<number, Body<"eval.finished">>, body: Body<"eval.finished">): void {
  evaluations.set(body.version, body);
  if (evaluations.size <= evaluationsMax) return;
  for (const [i, version] of [...evaluations.keys()].entries()) if (i % 2 === 1) evaluations.delete(version);
}

function gone(
  members: Map<string, MemberRecord>,
  { incarnation }: { readonly incarnation: string },
  end: Pick<MemberRecord, "left_ms" | "how">,
): void {
  const known = members.get(incarnation);
  if (known) members.set(incarnation, { ...known, ...end });
}

function joined(members: Map<string, MemberRecord>, body: Body<"member.joined">, atMs: number): void {
  members.set(body.incarnation, { ...body, joined_ms: atMs, left_ms: null, how: null });
  if (members.size <= livesMax) return;
  for (const [incarnation, { left_ms: leftMs }] of members)
    if (leftMs !== null) {
      members.delete(incarnation);
      return;
    }
}

/** Root causes are counted by class and top frame, as the controller does; the first one is shown. */
function countCause(causes: Map<string, CauseRecord>, body: Body<"groups.aborted">): void {
  const { name, message, frame = null, stack = null, sample = null, count } = body;
  const own = causeKeyOf(body);
  const isOther = !causes.has(own) && causes.size >= causesMax;
  const key = isOther ? "" : own;
  const known = causes.get(key);
  const first = isOther ? others : { name, message, frame, stack, sample };
  causes.set(key, { ...(known ?? first), count: (known?.count ?? 0) + count });
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
  readonly sinceStep: number | null;
  readonly wallMs: number;
  /** Of it, since the first event that was heard. */
  readonly heardMs: number;
  readonly steps: readonly StepRecord[];
  readonly tokens: number;
  readonly evals: readonly EvaluationRecord[];
  readonly best: Body<"checkpoint.best"> | null;
  readonly book: IncidentBook;
  readonly injections: readonly Injection[];
  readonly doubled: number;
  readonly final: Pick<Body<"job.ended">, "version" | "sections" | "ledger"> | null;
}): RunSummary {
  const { steps, evals, final } = run;
  const ledger = final?.ledger ?? { admitted: 0, trained: 0, aborted: 0, quarantined: 0, pending: 0 };
  const [first, last] = [steps.slice(0, edge), steps.slice(-edge)];
  const rewardIn = (part: readonly StepRecord[]): number | null => meanOf(part.flatMap(({ reward }) => reward ?? []));
  const lossIn = (part: readonly StepRecord[]): number | null => meanOf(part.map(({ loss }) => loss));
  const heldOut = steps.flatMap(({ held_out_loss: loss }) => loss ?? []);
  return {
    job: run.job,
    seed: run.seed,
    steps: steps.at(-1)?.step ?? 0,
    since_step: run.sinceStep,
    reward_first: rewardIn(first),
    reward_last: rewardIn(last),
    loss_first: lossIn(first),
    loss_last: lossIn(last),
    held_out_loss_first: heldOut[0] ?? null,
    held_out_loss_last: heldOut.at(-1) ?? null,
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
    tokens_per_s: run.tokens / Math.max(0.001, run.heardMs / 1000),
  };
}
