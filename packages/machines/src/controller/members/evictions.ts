/**
 * Flap control: a replica that was evicted comes back after a pause that doubles with each time within an hour (reliability 4.2). Who left,
 * or was seen to end, need not wait: only verdicts count, because only they can be wrong.
 */
import type { Body } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import { type ControllerState, type Eviction, type Member, without } from "../state.ts";

const hourMs = 3_600_000;
const pauseMaxMs = 600_000;
/** Replicas whose evictions are remembered. */
const idsMax = 256;
const timesMax = 16;

/** Remembers that a member was evicted. Pure. */
export function withEviction(
  state: ControllerState,
  { id, host, pid }: Pick<Member, "id" | "host" | "pid">,
): ControllerState {
  const { nowMs, plan } = state;
  const earlier = (state.evictions[id]?.times ?? []).filter((atMs) => nowMs - atMs < hourMs);
  const times = [...earlier, nowMs].slice(-timesMax);
  const pauseMs = Math.min(pauseMaxMs, plan.health.readmitAfterMs * 2 ** times.length);
  const entry: Eviction = { times, untilMs: nowMs + pauseMs, host, pid };
  const kept = Object.entries(without(state.evictions, id)).slice(-(idsMax - 1));
  return { ...state, evictions: { ...Object.fromEntries(kept), [id]: entry } };
}

/** True while a replica may not come back yet. Pure. */
export function mustWait(state: ControllerState, id: string): boolean {
  return state.nowMs < (state.evictions[id]?.untilMs ?? 0);
}

/** Puts a registration by until its replica may come back. Pure. */
export function keepWaiting(
  state: ControllerState,
  { id, incarnation }: { readonly id: string; readonly incarnation: string },
  body: Body<"replica.register">,
): Change<ControllerState> {
  if (state.waiting[id]?.incarnation === incarnation) return { state, effects: [] };
  const { times, untilMs } = state.evictions[id] ?? { times: [], untilMs: state.nowMs };
  const detail = `${id} was evicted ${times.length} times within an hour; it is admitted in ${Math.round(untilMs - state.nowMs)} ms`;
  // Who ends while it waits, and comes again, waits for the same end.
  const isNews = times.length > 1 && state.waiting[id] === undefined;
  return {
    state: { ...state, waiting: { ...state.waiting, [id]: { incarnation, body } } },
    effects: isNews ? [announce("alarm.raised", { alarm: "flapping", detail })] : [],
  };
}

/** A process has ended for certain: it waits no more, and who follows it need not wait for it. Pure. */
export function applyEnded(
  state: ControllerState,
  { id, host, pid }: Pick<Body<"process.exited">, "id" | "host" | "pid">,
): ControllerState {
  const isIt = (life: { readonly host: string; readonly pid: number }): boolean =>
    life.host === host && life.pid === pid;
  const waiting = state.waiting[id];
  const gone = waiting && isIt(waiting.body) ? { ...state, waiting: without(state.waiting, id) } : state;
  const eviction = gone.evictions[id];
  if (!eviction || eviction.isHeld || !isIt(eviction) || eviction.untilMs <= gone.nowMs) return gone;
  return { ...gone, evictions: { ...gone.evictions, [id]: { ...eviction, untilMs: gone.nowMs } } };
}
