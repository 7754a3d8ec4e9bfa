/** The result of a chaos run: one JSON object for programs, and a few lines for people. Pure. */
import { applyFact, emptyIncidentLog, ettrOf } from "@muster/machines";
import { firstDifference, lostOf, trainingOf, weightsHashAt } from "./compare.ts";
import type { HeardEvent } from "./follow.ts";
import { measureRecoveries, type Spread, spreadsOf } from "./measure.ts";
import type { ChaosRun } from "./run-chaos.ts";

/** The last line of `muster chaos --json`. The keys stay as they are. */
export interface ChaosResult {
  readonly job: string;
  readonly seed: number;
  readonly minutes: number;
  readonly ok: boolean;
  /** What is wrong, in words; empty when nothing is. */
  readonly faults_found: readonly string[];
  /** Faults that were done, by kind. */
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
  const faultsFound = faultsOf({ ...facts, isCompared, steps: training.steps, chaos });
  return {
    job: input.job,
    seed: input.seed,
    minutes: input.minutes,
    ok: faultsFound.length === 0,
    faults_found: faultsFound,
    faults: countsOf(done.map(({ kind, target }) => `${kind}.${target.role}`)),
    faults_total: done.length,
    ...facts,
    steps,
    journal: { records: chaos.audit.records, terms: chaos.audit.terms, commits: chaos.audit.commits },
    detection: spreadsOf(recoveries, chaos.deadAfterMs, ({ detectMs }) => detectMs),
    recovery: spreadsOf(recoveries, chaos.deadAfterMs, ({ recoverMs }) => recoverMs),
    unnoticed: unrecovered.filter(({ detectMs }) => detectMs === null).length,
    doubted: unrecovered.filter(({ detectMs }) => detectMs !== null).length,
    without_recovery: countsOf(unrecovered.map(({ kind }) => kind)),
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
  > & { readonly isCompared: boolean; readonly steps: number; readonly chaos: ChaosRun },
): readonly string[] {
  const { chaos, isCompared } = facts;
  const isOther = facts.first_difference !== null || facts.weights_hash !== facts.hash_of_quiet_run;
  const found: (readonly [boolean, string])[] = [
    [facts.lost !== 0, `${facts.lost} trajectories are in no column of the ledger`],
    [facts.doubled !== 0, `${facts.doubled} groups were trained twice`],
    [!facts.replicas_bitwise_equal, "replicas did not hold the same bytes"],
    [isCompared && isOther, `the weights differ from the quiet run's, first at step ${facts.first_difference}`],
    [facts.violations.length > 0, `${facts.violations.length} invariants did not hold`],
    [facts.steps === 0, "no step was committed"],
    [chaos.steadyMs === null, "the job was not steady in time after the last fault"],
    [chaos.exitCode !== 0, `the run ended with code ${chaos.exitCode}`],
  ];
  return found.flatMap(([isTrue, what]) => (isTrue ? [what] : []));
}

/** Writes the result for a terminal. */
export function chaosText(result: ChaosResult): string {
  const rows: (readonly [string, string])[] = [
    ["faults", `${result.faults_total} in ${result.minutes} min: ${textOfCounts(result.faults)}`],
    ...comparedRows(result),
    ["ledger", `${result.lost} lost, ${result.doubled} trained twice`],
    [
      "journal",
      `${result.journal.records} records, ${result.journal.terms} terms, ${result.violations.length} violations`,
    ],
    ["steady", result.steady_ms === null ? "never" : `${result.steady_ms} ms after the last fault`],
    ["goodput", goodputText(result)],
    [
      "no recovery",
      `${result.unnoticed} unnoticed, ${result.doubted} suspected for a while${result.unnoticed + result.doubted > 0 ? `: ${textOfCounts(result.without_recovery)}` : ""}`,
    ],
    ["load", result.load.map((load) => load.toFixed(1)).join(" … ")],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const table = Object.entries(result.recovery).map(
    ([kind, { n, p50_ms, p90_ms, p99_ms, max_ms, max_td }]) =>
      `  ${kind.padEnd(20)} ${[n, p50_ms, p90_ms, p99_ms, max_ms].map((figure) => String(figure).padStart(8)).join("")}  ${max_td} T_d`,
  );
  const head = `  ${"recovery, ms".padEnd(20)} ${["n", "p50", "p90", "p99", "max"].map((name) => name.padStart(8)).join("")}`;
  const verdict = result.ok ? "nothing lost, nothing trained twice, nothing different" : result.faults_found.join("; ");
  return [
    ...rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`),
    "",
    head,
    ...table,
    "",
    `  ${verdict}`,
  ].join("\n");
}

function comparedRows(result: ChaosResult): readonly (readonly [string, string])[] {
  if (result.goodput === null)
    return [
      ["steps", `${result.steps}, not compared`],
      ["weights", result.weights_hash],
    ];
  const equal = result.weights_hash === result.hash_of_quiet_run ? "=" : "≠";
  const upTo = result.first_difference === null ? "" : ` up to ${result.first_difference - 1}`;
  return [
    ["steps", `${result.steps}, each with the digest of the quiet run${upTo}`],
    ["weights", `${result.weights_hash} ${equal} ${result.hash_of_quiet_run} (quiet run)`],
  ];
}

function goodputText({ goodput, ettr }: ChaosResult): string {
  const share = goodput === null ? "not compared" : `${percent(goodput)} of the quiet run's steps per second`;
  return `${share}; ETTR ${percent(ettr)}`;
}

function textOfCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(", ");
}

function countsOf(names: readonly string[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries([...counts].sort(([a], [b]) => a.localeCompare(b)));
}

function rateOf({ steps, spanMs }: { readonly steps: number; readonly spanMs: number }): number {
  return spanMs > 0 ? (steps - 1) / spanMs : 0;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
