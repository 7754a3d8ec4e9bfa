/** A chaos run: a real job under a seeded plan of faults, then the same job in peace, and the comparison of the two. */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { auditFacts, type JournalAudit } from "@muster/check/internal";
import { errors } from "../errors.ts";
import { type RunningAudit, startAudit } from "./audit.ts";
import { startBrokerProxy } from "./broker-proxy.ts";
import { doPlan } from "./do-plan.ts";
import { type FarHost, openFarHost } from "./far-host.ts";
import { brokerPortOf, type HeardEvent } from "./follow.ts";
import { type MusterProgram, startMuster } from "./job-process.ts";
import type { Injection } from "./measure.ts";
import { type ChaosFault, type ChaosRole, type ChaosWish, drawSchedule, drawSeries } from "./schedule.ts";
import { untilSteady } from "./steady.ts";
import { startWatchedRun, stopRun, until, type WatchedRun } from "./watched-run.ts";

/** What to put a job through. */
export interface ChaosOptions {
  readonly program: MusterProgram;
  /** nats-server, for reading the journal after the run. */
  readonly natsServer: string;
  readonly file: string;
  readonly runs: string;
  readonly job: string;
  readonly seed: number;
  /** How long faults go on; with `count` the most that they may take. */
  readonly minutes: number;
  readonly kinds: readonly ChaosWish[];
  /** Faults of each kind, one at a time, each after the job has recovered from the last; `null` for a schedule of all at once. */
  readonly count: number | null;
  /** With `count`: least time from one fault to the next. */
  readonly pauseMs: number;
  readonly replicas: Readonly<Record<ChaosRole, number>>;
  /** More settings of the job, `key=value`. */
  readonly set: readonly string[];
  /** Hears what goes on, one line each. */
  readonly say: (line: string) => void;
  readonly onEvent: (event: HeardEvent) => void;
  readonly signal: AbortSignal;
}

/** What happened in the run with faults. */
export interface ChaosRun {
  readonly plan: readonly ChaosFault[];
  readonly injections: readonly Injection[];
  readonly events: readonly HeardEvent[];
  readonly deadAfterMs: number;
  /** From the last fault until everybody was back and steps went on; `null` when that did not happen in time. */
  readonly steadyMs: number | null;
  /** When the job was asked to stop, wall ms: who is missed later has left. */
  readonly stoppedAtMs: number;
  readonly exitCode: number | null;
  /** Of the journal, and of what the job said in public. */
  readonly audit: Pick<JournalAudit, "records" | "terms" | "commits" | "violations" | "replicasBitwiseEqual">;
  readonly directory: string;
}

/** Steps of the job: more than a run can commit in its minutes and while it recovers, so that we end it and not the count. */
const stepsPerMinute = 600;
const firstStepMs = 180_000;
const steadyMaxMs = 120_000;
const stopMs = 90_000;
const stepsAfter = 3;

/** Runs the job with faults until the minutes are over, lets it recover, and stops it. */
export async function runWithFaults(options: ChaosOptions): Promise<ChaosRun> {
  const { runs, job, say, replicas, signal } = options;
  const directory = join(runs, job);
  const far = options.kinds.some(({ kind }) => kind === "partition") ? openFarHost() : null;
  const proxy = await startBrokerProxy(() => brokerPortOf(directory) ?? 0, far?.namespace.nearAddress);
  const wanted = Object.values(replicas).reduce((sum, count) => sum + count, 0);
  let run: WatchedRun | null = null;
  let reading: RunningAudit | null = null;
  try {
    run = await startWatchedRun({ ...options, args: [...argsOf(options, far), "--advertise", proxy.url] });
    reading = await startAudit({ directory, config: run.config, binary: options.natsServer });
    if (far) await inhabit(far, run, { ...options, brokerPort: proxy.port });
    await untilFirstStep(run, signal);
    if (far) say(`a second host: ${far.namespace.name}, ${far.namespace.farAddress}`);
    const deadAfterMs = run.config.timing.deadAfterMs;
    const given = { ...options, deadAfterMs };
    const plan = options.count === null ? drawSchedule(given) : drawSeries({ ...given, count: options.count });
    writeFileSync(join(directory, "chaos.jsonl"), plan.map((fault) => `${JSON.stringify({ plan: fault })}\n`).join(""));
    say(`${plan.length} faults in ${options.minutes} min, seed ${options.seed}; dead time-out ${deadAfterMs} ms`);
    const isPaced = options.count !== null;
    const injections = await doPlan(plan, { ...options, isPaced, wanted, run, proxy, far });
    const steadyMs = await untilSteady(run, { wanted, steps: stepsAfter, timeoutMs: steadyMaxMs, signal });
    say(steadyMs === null ? "not steady in time" : `steady ${Math.round(steadyMs)} ms after the last fault`);
    far?.release();
    const stoppedAtMs = Date.now();
    const exitCode = await stopRun(run, { ...options, timeoutMs: stopMs });
    const { subscription } = run;
    await subscription.close();
    say("reading the rest of the journal");
    const journal = await reading.finish();
    const audit = { ...journal, violations: [...journal.violations, ...auditFacts(run.config, subscription.events)] };
    return {
      plan,
      injections,
      events: subscription.events,
      deadAfterMs,
      steadyMs,
      stoppedAtMs,
      exitCode,
      audit,
      directory,
    };
  } finally {
    await reading?.close();
    await endRun(run);
    await proxy.close();
    far?.close();
  }
}

async function untilFirstStep(run: WatchedRun, signal: AbortSignal): Promise<void> {
  await until(() => run.subscription.events.some(({ kind }) => kind === "step.committed"), {
    what: "the first step",
    timeoutMs: firstStepMs,
    signal,
    command: run.command,
  });
}

/** One trainer and half of the samplers live on the second host; the run starts the others. */
function nearReplicas({ replicas }: ChaosOptions): Readonly<Record<ChaosRole, number>> {
  return { ...replicas, policy: replicas.policy - 1, rollout: replicas.rollout - farRollouts(replicas) };
}

function farRollouts({ rollout }: ChaosOptions["replicas"]): number {
  return Math.floor(rollout / 2);
}

/** Starts what lives on the second host. Its samplers are asked for when its node is there, so that they go to it. */
async function inhabit(
  far: FarHost,
  run: WatchedRun,
  options: ChaosOptions & { readonly brokerPort: number },
): Promise<void> {
  const { program, runs, job, replicas, signal, brokerPort } = options;
  const { socketDirectory } = run.config.data;
  far.start({ program, runs, job, socketDirectory, brokerPort, rollouts: farRollouts(replicas) });
  const isThere = (id: string): boolean =>
    run.subscription.events.some(({ kind, body }) => kind === "member.joined" && body.id === id);
  await until(() => far.ids.every(isThere), {
    what: "the second host",
    timeoutMs: firstStepMs,
    signal,
    command: run.command,
  });
  const scale = startMuster(program, ["scale", `rollout=${replicas.rollout}`, "--job", job, "--runs", runs]);
  const { code } = await scale.exited;
  if (code !== 0) throw errors.ChaosRun({ what: "samplers", reason: `code ${code}`, lines: scale.lines().join(" | ") });
}

/** Runs the same job without faults until it has committed `steps`. */
export async function runQuietly(options: ChaosOptions, steps: number): Promise<readonly HeardEvent[]> {
  const job = `${options.job}-quiet`;
  let run: WatchedRun | null = null;
  try {
    run = await startWatchedRun({ ...options, job, args: argsOf(options) });
    const { subscription, command } = run;
    const isThere = (): boolean =>
      subscription.events.some(({ kind, body }) => kind === "step.committed" && body.step >= steps);
    const timeoutMs = firstStepMs + 2 * options.minutes * 60_000;
    await until(isThere, { what: `step ${steps} of the quiet run`, timeoutMs, signal: options.signal, command });
    await stopRun(run, { ...options, timeoutMs: stopMs });
    await subscription.close();
    return subscription.events;
  } finally {
    await endRun(run);
  }
}

function argsOf(options: ChaosOptions, far: FarHost | null = null): readonly string[] {
  const { file, seed, minutes, set } = options;
  const counts = Object.entries(far ? nearReplicas(options) : options.replicas).flatMap(([role, count]) => [
    `--${role}`,
    String(count),
  ]);
  const network = far ? [`data.tcp_host=${far.namespace.network}`] : [];
  const steps = Math.ceil((minutes + steadyMaxMs / 60_000) * stepsPerMinute);
  return [
    file,
    "--controllers",
    "2",
    "--seed",
    String(seed),
    "--steps",
    String(steps),
    ...counts,
    ...[...set, ...network].flatMap((one) => ["--set", one]),
  ];
}

const leaveMs = 20_000;

/** Leaves nothing behind, whatever happened. */
async function endRun(run: WatchedRun | null): Promise<void> {
  if (!run) return;
  await run.subscription.close();
  if (run.command.isOver()) return;
  run.command.kill("SIGTERM");
  const timer = setTimeout(() => run.command.kill("SIGKILL"), leaveMs);
  await run.command.exited;
  clearTimeout(timer);
}

/** A name for a run that was given none. */
export function chaosJobName(seed: number): string {
  return `chaos-${seed}-${randomBytes(3).toString("hex")}`;
}
