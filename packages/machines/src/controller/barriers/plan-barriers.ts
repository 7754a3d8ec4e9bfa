/** The deadlines of barriers: each open one ends, or waits on and says for whom; one that ended answers whoever asked since it was said. */
import { abortBarrier, expire, missingOf, ranksText } from "../../phases/barrier.ts";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import type { ControllerState } from "../state.ts";
import { type Barriers, isOnlyReturned, type KeptBarrier } from "./barriers-state.ts";
import { answered, answeredAll } from "./tell-end.ts";

/** True while a deadline may pass. Pure. */
export function isBarrierWaiting({ barriers }: ControllerState): boolean {
  return barriers !== undefined && waitingOf(barriers).length > 0;
}

/** Ends the barriers whose time is over; whoever did not come to one that goes on without it is out. Pure. */
export function planBarriers(state: ControllerState): Change<ControllerState> | null {
  const { barriers, nowMs } = state;
  if (!barriers) return null;
  const effects: ControllerEffect[] = [];
  let next = barriers;
  for (const [key, before] of waitingOf(barriers)) {
    const { barrier, effects: said } = before.end ? answeredAll(before, nowMs) : atDeadline(before, state);
    if (barrier === before) continue;
    next = { ...next, table: { ...next.table, [key]: barrier } };
    if (!before.end && barrier.end?.outcome === "partial") next = { ...next, out: { ...next.out, ...outOf(barrier) } };
    effects.push(...said);
  }
  return next === barriers ? null : { state: { ...state, barriers: next }, effects };
}

/** Those that are open, and those whose end somebody waits to hear again. */
function waitingOf({ table }: Barriers): readonly (readonly [string, KeptBarrier])[] {
  return Object.entries(table).filter(([, { end, isAsked }]) => end === null || isAsked);
}

/** What an open one is now; the same while it has time. */
function atDeadline(open: KeptBarrier, { ending, nowMs }: ControllerState): ReturnType<typeof answered> {
  const onMissing = isOnlyReturned(open) ? "wait" : open.rules.onMissing;
  const now = ending
    ? abortBarrier(open, `the job has ended: ${ending.reason}`, nowMs)
    : expire(open, nowMs, onMissing);
  if (now === open) return { barrier: open, effects: [] };
  const barrier: KeptBarrier = { ...open, ...now };
  return barrier.end ? answered(barrier, nowMs) : { barrier, effects: [late(barrier)] };
}

function outOf({ end, iteration }: KeptBarrier): Barriers["out"] {
  return Object.fromEntries((end?.missing ?? []).map((rank) => [rank, iteration]));
}

function late(barrier: KeptBarrier): ControllerEffect {
  const { iteration, phase, rules } = barrier;
  const missing = ranksText(missingOf(barrier));
  const few = rules.onMissing === "eject" ? `fewer than quorum = ${rules.quorum} are there` : "it is to wait for all";
  const why = isOnlyReturned(barrier) ? "nobody is there but ranks that came back" : few;
  const detail = `iteration ${iteration} phase ${phase} waits for ${missing} longer than ${rules.timeoutMs} ms, since ${why}`;
  return announce("alarm.raised", { alarm: "barrier", detail });
}
