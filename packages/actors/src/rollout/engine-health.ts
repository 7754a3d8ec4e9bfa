/**
 * Health checks of a rollout's engine (semantics 1): is it there, and does it still generate. Each has a streak of its own, because a wedged
 * engine can pass the one and fail the other. The heartbeat carries the streaks, and the controller decides.
 */
import { type Clock, messageOf, withDeadline } from "@muster/base";
import type { RolloutEngine } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import type { WorkTools } from "../replica/work.ts";

/** What health checks are made with. */
export interface EngineHealthOptions {
  readonly engine: Pick<RolloutEngine, "health">;
  readonly timing: Pick<JobConfig["health"], "firstWaitMs" | "intervalMs" | "timeoutMs">;
  readonly clock: Clock;
  readonly logger: WorkTools["environment"]["logger"];
  readonly beats: Pick<WorkTools["beats"], "setEngine">;
  /** True while the engine generates: then its progress says more than a check that waits in line. */
  readonly isBusy: () => boolean;
}

/** Begins to check. @returns Ends it. */
export function watchEngine(options: EngineHealthOptions): () => void {
  const { clock, timing, beats } = options;
  const startedMs = clock.now();
  const failures = { liveness: 0, generation: 0 };
  const stopping = new AbortController();
  let wasUp = false;
  let cancel = (): void => {};
  const check = async (deep: boolean): Promise<void> => {
    const isUp = await isWell(options, deep, stopping.signal);
    if (isUp === null || stopping.signal.aborted) return;
    wasUp ||= isUp;
    const streak = deep ? "generation" : "liveness";
    // An engine may need minutes to start; until it was up once, only the first wait bounds it.
    const counts = wasUp || clock.now() - startedMs >= timing.firstWaitMs;
    failures[streak] = isUp || !counts ? 0 : failures[streak] + 1;
    beats.setEngine({ ...failures });
  };
  const round = async (): Promise<void> => {
    await check(false);
    if (!options.isBusy()) await check(true);
    if (!stopping.signal.aborted) wait();
  };
  const wait = (): void => {
    cancel = clock.after(timing.intervalMs, () => void round());
  };
  wait();
  return () => {
    stopping.abort(new Error("the engine is closing"));
    cancel();
  };
}

/** One check; `null` when the engine is not meant to serve now. */
async function isWell(options: EngineHealthOptions, deep: boolean, stop: AbortSignal): Promise<boolean | null> {
  const { engine, clock, timing, logger } = options;
  const over = new AbortController();
  const signal = AbortSignal.any([stop, over.signal]);
  const what = deep ? "a health check that generates" : "a health check";
  try {
    const deadline = { what, timeoutMs: timing.timeoutMs, clock };
    const { ok, state, detail } = await withDeadline(() => engine.health({ deep, signal }), deadline);
    if (!ok) logger.warn({ state, detail: detail ?? "" }, `${what} failed`);
    return state === "starting" || state === "asleep" || state === "stopping" ? null : ok;
  } catch (error) {
    over.abort(new Error("the check took too long"));
    if (!stop.aborted) logger.warn({ reason: messageOf(error) }, `${what} failed`);
    return false;
  }
}
