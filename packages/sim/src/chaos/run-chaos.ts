/** A chaos run: a real job under a seeded plan of faults, then the same job in peace, and the comparison of the two. */
import { randomBytes } from "node:crypto";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type JobStatus, statusKey } from "@muster/actors";
import { unpack } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { type Audit, auditJournal } from "./audit.ts";
import { type BrokerProxy, startBrokerProxy } from "./broker-proxy.ts";
import { brokerPortOf, type HeardEvent } from "./follow.ts";
import { createInjector } from "./inject.ts";
import type { MusterProgram } from "./job-process.ts";
import type { Injection } from "./measure.ts";
import { type ChaosFault, type ChaosKind, type ChaosRole, drawSchedule } from "./schedule.ts";
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
  readonly minutes: number;
  readonly kinds: readonly ChaosKind[];
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
  readonly exitCode: number | null;
  readonly audit: Audit;
  readonly directory: string;
}

/** Steps of the job: more than a run of these minutes can commit, so that time ends it and not the count. */
const stepsPerMinute = 600;
const firstStepMs = 180_000;
const steadyMaxMs = 120_000;
const stopMs = 90_000;
const stepsAfter = 3;

/** Runs the job with faults until the minutes are over, lets it recover, and stops it. */
export async function runWithFaults(options: ChaosOptions): Promise<ChaosRun> {
  const { runs, job, say } = options;
  const directory = join(runs, job);
  const proxy = await startBrokerProxy(() => brokerPortOf(directory) ?? 0);
  let run: WatchedRun | null = null;
  try {
    run = await startWatchedRun({
      ...options,
      args: [...argsOf(options), "--advertise", proxy.url],
    });
    await until(() => (run?.ears.events ?? []).some(({ kind }) => kind === "step.committed"), {
      what: "the first step",
      timeoutMs: firstStepMs,
      signal: options.signal,
      command: run.command,
    });
    const deadAfterMs = run.config.timing.deadAfterMs;
    const plan = drawSchedule({ ...options, deadAfterMs });
    writeFileSync(join(directory, "chaos.jsonl"), plan.map((fault) => `${JSON.stringify({ plan: fault })}\n`).join(""));
    say(`${plan.length} faults in ${options.minutes} min, seed ${options.seed}; dead time-out ${deadAfterMs} ms`);
    const injections = await doPlan(plan, { ...options, directory, run, proxy });
    const steadyMs = await untilSteady(run, options);
    say(steadyMs === null ? "not steady in time" : `steady ${Math.round(steadyMs)} ms after the last fault`);
    const exitCode = await stopRun(run, { ...options, timeoutMs: stopMs });
    const { config, ears } = run;
    await ears.close();
    say("reading the journal");
    const audit = await auditJournal({ directory, config, binary: options.natsServer });
    return { plan, injections, events: ears.events, deadAfterMs, steadyMs, exitCode, audit, directory };
  } finally {
    await endRun(run);
    await proxy.close();
  }
}

/** Runs the same job without faults until it has committed `steps`. */
export async function runQuietly(options: ChaosOptions, steps: number): Promise<readonly HeardEvent[]> {
  const job = `${options.job}-quiet`;
  let run: WatchedRun | null = null;
  try {
    run = await startWatchedRun({ ...options, job, args: argsOf(options) });
    const { ears, command } = run;
    const isThere = (): boolean =>
      ears.events.some(({ kind, body }) => kind === "step.committed" && body.step >= steps);
    const timeoutMs = firstStepMs + 2 * options.minutes * 60_000;
    await until(isThere, { what: `step ${steps} of the quiet run`, timeoutMs, signal: options.signal, command });
    await stopRun(run, { ...options, timeoutMs: stopMs });
    await ears.close();
    return ears.events;
  } finally {
    await endRun(run);
  }
}

function argsOf({ file, seed, minutes, replicas, set }: ChaosOptions): readonly string[] {
  const counts = Object.entries(replicas).flatMap(([role, count]) => [`--${role}`, String(count)]);
  const steps = Math.max(10, Math.ceil(minutes * stepsPerMinute));
  return [
    file,
    "--controllers",
    "2",
    "--seed",
    String(seed),
    "--steps",
    String(steps),
    ...counts,
    ...set.flatMap((one) => ["--set", one]),
  ];
}

/** Does the plan at its times. @returns What was done. */
async function doPlan(
  plan: readonly ChaosFault[],
  given: ChaosOptions & { readonly directory: string; readonly run: WatchedRun; readonly proxy: BrokerProxy },
): Promise<readonly Injection[]> {
  const { run, proxy, directory, say, signal } = given;
  const injections: Injection[] = [];
  const acting = followActing(run.ears.transport);
  const injector = createInjector({
    runs: given.runs,
    job: given.job,
    socketDirectory: run.config.data.socketDirectory,
    proxy,
    actingPid: acting.pid,
    onDone(injection) {
      injections.push(injection);
      appendFileSync(join(directory, "chaos.jsonl"), `${JSON.stringify({ done: injection })}\n`);
      say(lineOf(injection));
    },
  });
  try {
    const startedMs = performance.now();
    for (const fault of plan) {
      await until(() => performance.now() - startedMs >= fault.atMs, {
        what: "the time of a fault",
        timeoutMs: fault.atMs + 60_000,
        signal,
        command: run.command,
      });
      injector.inject(fault);
    }
    const endMs = given.minutes * 60_000;
    await until(() => performance.now() - startedMs >= endMs, {
      what: "the end of the faults",
      timeoutMs: endMs + 60_000,
      signal,
      command: run.command,
    });
    return injections;
  } finally {
    injector.release();
    acting.stop();
  }
}

function lineOf({ n, kind, id, lastsMs, direction }: Injection): string {
  const how = [direction, lastsMs > 0 ? `for ${(lastsMs / 1000).toFixed(1)} s` : ""].filter(Boolean).join(" ");
  return `#${n} ${kind} ${id ?? "nobody is there"}${how ? ` ${how}` : ""}`;
}

const lookEveryMs = 500;

/** Knows the process of the acting controller from the picture that it draws. */
function followActing(transport: Transport): { readonly pid: () => number | null; readonly stop: () => void } {
  let pid: number | null = null;
  const look = async (): Promise<void> => {
    // While the broker is away there is no picture; the last one stands.
    const entry = await transport
      .state()
      .get(statusKey)
      .catch(() => null);
    pid = entry ? ((unpack(entry.value) as JobStatus).controller?.pid ?? pid) : pid;
  };
  const timer = setInterval(() => void look(), lookEveryMs);
  return { pid: () => pid, stop: () => clearInterval(timer) };
}

/** Waits until everybody is a member again and steps go on. @returns Milliseconds, or `null` when it took too long. */
async function untilSteady(run: WatchedRun, { replicas, signal }: ChaosOptions): Promise<number | null> {
  const startedMs = performance.now();
  const { ears, command } = run;
  const committed = (): number => ears.events.filter(({ kind }) => kind === "step.committed").length;
  const target = committed() + stepsAfter;
  const wanted = Object.values(replicas).reduce((sum, count) => sum + count, 0);
  const isSteady = (): boolean => committed() >= target && presentOf(ears.events) >= wanted;
  try {
    await until(isSteady, { what: "a steady job", timeoutMs: steadyMaxMs, signal, command });
    return performance.now() - startedMs;
  } catch (error) {
    if (signal.aborted || command.isOver()) throw error;
    return null;
  }
}

/** How many replicas are members. */
function presentOf(events: readonly HeardEvent[]): number {
  const present = new Set<string>();
  for (const { kind, body } of events) {
    if (kind === "member.joined") present.add(body.incarnation);
    if (kind === "member.left" || kind === "member.died") present.delete(body.incarnation);
  }
  return present.size;
}

const leaveMs = 20_000;

/** Leaves nothing behind, whatever happened. */
async function endRun(run: WatchedRun | null): Promise<void> {
  if (!run) return;
  await run.ears.close();
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
