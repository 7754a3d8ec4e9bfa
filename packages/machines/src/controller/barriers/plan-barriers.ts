/** The deadlines of barriers: each open one ends, or waits on and says for whom. */
import { abortBarrier, expire, missingOf, ranksText } from "../../phases/barrier.ts";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import type { ControllerState } from "../state.ts";
import { ended } from "./apply-arrived.ts";
import { type Barriers, isOnlyReturned, type KeptBarrier } from "./barriers-state.ts";

/** True while a deadline may pass. Pure. */
export function isBarrierOpen({ barriers }: ControllerState): boolean {
  return barriers !== undefined && openOf(barriers).length > 0;
}

/** Ends the barriers whose time is over; whoever did not come to one that goes on without it is out. Pure. */
export function planBarriers(state: ControllerState): Change<ControllerState> | null {
  const { barriers, ending, nowMs } = state;
  if (!barriers) return null;
  const effects: ControllerEffect[] = [];
  let next = barriers;
  for (const [key, open] of openOf(barriers)) {
    const onMissing = isOnlyReturned(open) ? "wait" : open.rules.onMissing;
    const now = ending
      ? abortBarrier(open, `the job has ended: ${ending.reason}`, nowMs)
      : expire(open, nowMs, onMissing);
    if (now === open) continue;
    const barrier: KeptBarrier = { ...open, ...now };
    next = { ...next, table: { ...next.table, [key]: barrier } };
    if (barrier.end?.outcome === "partial") next = { ...next, out: { ...next.out, ...outOf(barrier) } };
    effects.push(barrier.end ? ended(barrier) : late(barrier));
  }
  return next === barriers ? null : { state: { ...state, barriers: next }, effects };
}

function openOf({ table }: Barriers): readonly (readonly [string, KeptBarrier])[] {
  return Object.entries(table).filter(([, { end }]) => end === null);
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
