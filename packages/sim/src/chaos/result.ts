/** The result of a chaos run: one JSON object for programs. Pure. */
import { applyFact, emptyIncidentLog, ettrOf, type IncidentLog } from "@muster/machines";
import { type Aim, aimsOf } from "./aims.ts";
import { firstDifference, lostOf, type Training, trainingOf, weightsHashAt } from "./compare.ts";
import type { HeardEvent } from "./follow.ts";
import { measureRecoveries, type Spread, spreadsOf } from "./measure.ts";
import { type Outcome, outcomesOf } from "./outcome.ts";
import type { ChaosRun } from "./run-chaos.ts";

/** The last line of `muster chaos --json`. The keys stay as they are. */
export interface ChaosResult {
  readonly job: string;
  readonly seed: number;
  readonly minutes: number;
  readonly ok: boolean;
  /** What is wrong, in words; empty when nothing is. */
  readonly faults_found: readonly string[];
  /** Faults that were planned, by kind and whom they hit. */
  readonly planned: Readonly<Record<string, number>>;
  /** Faults that were done, by kind and whom they hit. */
  readonly faults: Readonly<Record<string, number>>;
  readonly faults_total: number;
  readonly lost: number;
  readonly doubled: number;
  readonly replicas_bitwise_equal: boolean;
  readonly weights_hash: string;
  readonly hash_of_quiet_run: string;
  /** Steps that both runs committed, compared one by one; those of this run when there was no other. */
  readonly steps: number;
  /** First step with other weights or optimizer state than in the quiet run. */
  readonly first_difference: number | null;
  readonly violations: readonly string[];
  readonly journal: { readonly records: number; readonly terms: number; readonly commits: number };
  readonly detection: Readonly<Record<string, Spread>>;
  readonly recovery: Readonly<Record<string, Spread>>;
  /** Faults that nobody noticed: too short, or of what was not in use. */
  readonly unnoticed: number;
  /** Faults after which somebody was suspected and came back in time: nothing had to recover. */
  readonly doubted: number;
  /** Both, by kind. */
  readonly without_recovery: Readonly<Record<string, number>>;
  /** Faults that the job recovered from, in number. */
  readonly recovered: number;
  /** Faults that had nothing to recover from: by reason, then by kind. */
  readonly harmless: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Faults that the job had to recover from and did not, in words. */
  readonly unrecovered: readonly string[];
  /** Incidents of the job's own log, and those from before it was asked to stop that never ended, in words. */
  readonly incidents: { readonly total: number; readonly open: readonly string[] };
  /** The times that recovery aims at, beside what was measured; `ok` does not depend on them. */
  readonly aims: readonly Aim[];
  readonly steady_ms: number | null;
  /** Steps per second with faults over steps per second without; `null` without a quiet run. */
  readonly goodput: number | null;
  readonly ettr: number;
  readonly tokens_wasted: number;
  readonly dead_after_ms: number;
  readonly load: readonly number[];
  readonly wall_s: number;
}

/** What the result is made from. */
export interface ResultInput {
  readonly job: string;
  readonly seed: number;
  readonly minutes: number;
  readonly isSync: boolean;
  readonly chaos: ChaosRun;
  /** `null` when the job was not run in peace; then nothing is compared. */
  readonly quiet: readonly HeardEvent[] | null;
  /** Load averages at the start and the end. */
  readonly load: readonly number[];
  readonly wallMs: number;
}

/** Judges the run. */
export function resultOf(input: ResultInput): ChaosResult {
  const { chaos, quiet } = input;
  const training = trainingOf(chaos.events);
  const calm = trainingOf(quiet ?? []);
  const steps = quiet ? Math.min(training.steps, calm.steps) : training.steps;
  const difference = firstDifference(training, calm);
  const recoveries = measureRecoveries(chaos.injections, chaos.events);
  const unrecovered = recoveries.filter(({ recoverMs }) => recoverMs === null);
  const outcomes = outcomesOf(chaos.injections, chaos.events, recoveries);
  const incidents = chaos.events.reduce(applyFact, emptyIncidentLog);
  const done = chaos.injections.filter(({ id }) => id !== null);
  const facts = {
    lost: lostOf(training),
    doubled: training.doubled,
    replicas_bitwise_equal: chaos.audit.replicasBitwiseEqual && training.contradictions.length === 0,
    weights_hash: weightsHashAt(training, training.steps),
    hash_of_quiet_run: weightsHashAt(calm, training.steps),
    first_difference: difference,
    violations: chaos.audit.violations.map(({ invariant, detail }) => `${invariant}: ${detail}`),
  };
  const isCompared = input.isSync && quiet !== null;
  const opened = {
    unrecovered: namesOf(outcomes.filter(({ outcome }) => outcome === "open")),
    open: openIn(incidents, chaos.stoppedAtMs),
  };
  const faultsFound = faultsOf({ ...facts, ...opened, isCompared, steps: training.steps, chaos });
  const recovery = spreadsOf(recoveries, chaos.deadAfterMs, ({ recoverMs }) => recoverMs);
  return {
    job: input.job,
    seed: input.seed,
    minutes: input.minutes,
    ok: faultsFound.length === 0,
    faults_found: faultsFound,
    planned: countsOf(chaos.plan.map(({ kind, target }) => `${kind}.${target.role}`)),
    faults: countsOf(done.map(({ kind, target }) => `${kind}.${target.role}`)),
    faults_total: done.length,
    ...facts,
    steps,
    journal: { records: chaos.audit.records, terms: chaos.audit.terms, commits: chaos.audit.commits },
    detection: spreadsOf(recoveries, chaos.deadAfterMs, ({ detectMs }) => detectMs),
    recovery,
    unnoticed: unrecovered.filter(({ detectMs }) => detectMs === null).length,
    doubted: unrecovered.filter(({ detectMs }) => detectMs !== null).length,
    without_recovery: countsOf(unrecovered.map(({ kind }) => kind)),
    recovered: outcomes.filter(({ outcome }) => outcome === "recovered").length,
    harmless: harmlessOf(outcomes),
    unrecovered: opened.unrecovered,
    incidents: { total: Object.values(incidents.counts).reduce((sum, count) => sum + count, 0), open: opened.open },
    aims: aimsOf(recovery, { deadAfterMs: chaos.deadAfterMs, stepMs: stepMsOf(calm, incidents) }),
    steady_ms: chaos.steadyMs === null ? null : Math.round(chaos.steadyMs),
    goodput: quiet ? round(rateOf(training) / Math.max(1e-9, rateOf(calm))) : null,
    ettr: round(ettrOf(incidents) ?? 0),
    tokens_wasted: incidents.tokensWasted,
    dead_after_ms: chaos.deadAfterMs,
    load: input.load,
    wall_s: round(input.wallMs / 1000),
  };
}

function faultsOf(
  facts: Pick<
    ChaosResult,
    | "lost"
    | "doubled"
    | "replicas_bitwise_equal"
    | "weights_hash"
    | "hash_of_quiet_run"
    | "first_difference"
    | "violations"
    | "unrecovered"
  > & {
    readonly open: readonly string[];
    readonly isCompared: boolean;
    readonly steps: number;
    readonly chaos: ChaosRun;
  },
): readonly string[] {
  const { chaos, isCompared, unrecovered, open } = facts;
  const missing = missingOf(chaos);
  const isOther = facts.first_difference !== null || facts.weights_hash !== facts.hash_of_quiet_run;
  const found: (readonly [boolean, string])[] = [
    [facts.lost !== 0, `${facts.lost} trajectories are in no column of the ledger`],
    [facts.doubled !== 0, `${facts.doubled} groups were trained twice`],
    [!facts.replicas_bitwise_equal, "replicas did not hold the same bytes"],
    [isCompared && isOther, `the weights differ from the quiet run's, first at step ${facts.first_difference}`],
    [facts.violations.length > 0, `${facts.violations.length} invariants did not hold`],
    [facts.steps === 0, "no step was committed"],
    [missing.length > 0, `planned and never done: ${missing.join(", ")}`],
    [unrecovered.length > 0, `never recovered from ${unrecovered.join(", ")}`],
    [open.length > 0, `incidents that did not end: ${open.join(", ")}`],
    [chaos.steadyMs === null, "the job was not steady in time after the last fault"],
    [chaos.exitCode !== 0, `the run ended with code ${chaos.exitCode}`],
  ];
  return found.flatMap(([isTrue, what]) => (isTrue ? [what] : []));
}

/** Kinds of the plan of which not one fault was done. */
function missingOf({ plan, injections }: ChaosRun): readonly string[] {
  const done = new Set(injections.flatMap(({ id, kind }) => (id === null ? [] : kind)));
  return [...new Set(plan.map(({ kind }) => kind))].filter((kind) => !done.has(kind));
}

function namesOf(outcomes: readonly Outcome[]): readonly string[] {
  return outcomes.map(({ n, kind }) => `#${n} ${kind}`);
}

/** What began before the job was asked to stop, and had not ended when it was over: who was only doubted has left by then. */
function openIn({ incidents }: IncidentLog, stoppedAtMs: number): readonly string[] {
  const open = incidents.filter(
    ({ detectedAtMs, recoveredAtMs }) => recoveredAtMs === null && detectedAtMs <= stoppedAtMs,
  );
  return open.map(({ kind, target, evidence }) => `${kind} of ${target} (${evidence})`);
}

function harmlessOf(outcomes: readonly Outcome[]): ChaosResult["harmless"] {
  const harmless = outcomes.filter(({ outcome }) => outcome !== "recovered" && outcome !== "open");
  const reasons = [...new Set(harmless.map(({ outcome }) => outcome))].sort();
  const kindsOf = (reason: string): readonly string[] =>
    harmless.flatMap(({ outcome, kind }) => (outcome === reason ? [kind] : []));
  return Object.fromEntries(reasons.map((reason) => [reason, countsOf(kindsOf(reason))]));
}

/** How long a step takes in peace: of the quiet run, else the median of the steps in which nothing went wrong; ms. */
function stepMsOf(calm: Training, { calm: lengths }: IncidentLog): number {
  if (calm.steps > 1) return calm.spanMs / (calm.steps - 1);
  return [...lengths].sort((a, b) => a - b)[lengths.length >> 1] ?? 0;
}

function countsOf(names: readonly string[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries([...counts].sort(([a], [b]) => a.localeCompare(b)));
}

function rateOf({ steps, spanMs }: { readonly steps: number; readonly spanMs: number }): number {
  return spanMs > 0 ? (steps - 1) / spanMs : 0;
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
