/** Does the faults of a plan at their times, or each as soon as the job has recovered from the last. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { decodeStatus, statusKey } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import type { BrokerProxy } from "./broker-proxy.ts";
import type { FarHost } from "./far-host.ts";
import { createInjector, type Injector } from "./inject.ts";
import type { Injection } from "./measure.ts";
import type { ChaosFault } from "./schedule.ts";
import { untilSteady } from "./steady.ts";
import { until, type WatchedRun } from "./watched-run.ts";

/** A plan and the job that it is for. */
export interface PlanOptions {
  readonly run: WatchedRun;
  readonly runs: string;
  readonly minutes: number;
  /** Each fault waits until the job has recovered from the one before it. */
  readonly isPaced: boolean;
  /** Least time from one fault of a series to the next. */
  readonly pauseMs: number;
  /** Replicas of the job when it is steady. */
  readonly wanted: number;
  readonly proxy: BrokerProxy;
  readonly far: FarHost | null;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Does the plan. @returns What was done. */
export async function doPlan(plan: readonly ChaosFault[], options: PlanOptions): Promise<readonly Injection[]> {
  const { run, proxy, far, say } = options;
  const injections: Injection[] = [];
  const acting = followActing(run.subscription.transport);
  const injector = createInjector({
    runs: options.runs,
    job: run.job,
    socketDirectory: run.config.data.socketDirectory,
    proxy,
    far,
    actingPid: acting.pid,
    onDone(injection) {
      injections.push(injection);
      appendFileSync(join(run.directory, "chaos.jsonl"), `${JSON.stringify({ done: injection })}\n`);
      say(lineOf(injection));
    },
  });
  try {
    await (options.isPaced ? inTurn : atTimes)(plan, injector, options);
    return injections;
  } finally {
    injector.release();
    acting.stop();
  }
}

/** How long a fault waits for somebody whom it can hit: who was killed a moment ago is started again within it. */
const nobodyMaxMs = 10_000;

async function atTimes(
  plan: readonly ChaosFault[],
  injector: Injector,
  { run, minutes, signal }: PlanOptions,
): Promise<void> {
  const startedMs = performance.now();
  const reached = (what: string, atMs: number): Promise<void> =>
    until(() => performance.now() - startedMs >= atMs, {
      what,
      timeoutMs: atMs + 60_000,
      signal,
      command: run.command,
    });
  for (const fault of plan) {
    await reached("the time of a fault", fault.atMs);
    const lastMs = performance.now() + nobodyMaxMs;
    await until(() => injector.hasVictim(fault) || performance.now() >= lastMs, {
      ...{ what: "somebody to hit", timeoutMs: 2 * nobodyMaxMs, signal, command: run.command },
    });
    injector.inject(fault);
  }
  await reached("the end of the faults", minutes * 60_000);
}

const recoverMaxMs = 90_000;

/** Until the plan or the time is over. A fault that lasts is over before the job counts as steady. */
async function inTurn(
  plan: readonly ChaosFault[],
  injector: Injector,
  { run, minutes, wanted, pauseMs, say, signal }: PlanOptions,
): Promise<void> {
  const endMs = performance.now() + minutes * 60_000;
  const wait = async (ms: number): Promise<void> => {
    const atMs = performance.now() + ms;
    await until(() => performance.now() >= atMs, {
      what: "the next fault",
      timeoutMs: ms + 60_000,
      signal,
      command: run.command,
    });
  };
  let nextMs = 0;
  for (const fault of plan) {
    const steadyMs = await untilSteady(run, { wanted, steps: 2, timeoutMs: recoverMaxMs, signal });
    if (steadyMs === null)
      say(`not steady ${recoverMaxMs / 1000} s after fault ${fault.n - 1}; the next one comes anyway`);
    await wait(Math.max(0, nextMs - performance.now()) + fault.atMs);
    if (performance.now() >= endMs) return;
    injector.inject(fault);
    nextMs = performance.now() + pauseMs;
    await wait(fault.lastsMs > 0 ? fault.lastsMs : settleMs);
  }
}

/** A death is known and said within this, so that the job is not taken for steady before it was disturbed. */
const settleMs = 1_000;

function lineOf({ n, kind, id, lastsMs, direction, way }: Injection): string {
  const how = [direction, way, lastsMs > 0 ? `for ${(lastsMs / 1000).toFixed(1)} s` : ""].filter(Boolean).join(" ");
  return `#${n} ${kind} ${id ?? "nobody is there"}${how ? ` ${how}` : ""}`;
}

const lookEveryMs = 500;

/** Knows the process of the acting controller from the status that it writes. */
function followActing(transport: Transport): { readonly pid: () => number | null; readonly stop: () => void } {
  let pid: number | null = null;
  const look = async (): Promise<void> => {
    // While the broker is away there is no status; the last one stands.
    const entry = await transport
      .state()
      .get(statusKey)
      .catch(() => null);
    pid = entry ? decodeStatus(entry.value, transport.job).controller.pid : pid;
  };
  const timer = setInterval(() => void look(), lookEveryMs);
  return { pid: () => pid, stop: () => clearInterval(timer) };
}
