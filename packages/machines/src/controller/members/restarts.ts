/**
 * Replicas that start again and again while nobody tells how they end, because they run under a supervisor of their own. A node gives up what ends more
 * than five times in ten minutes (reliability 2 A4); who runs without one waits here, for longer each time, and the operator hears why.
 */
import type { Body } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import { type ControllerState, type Member, without } from "../state.ts";
import { mustWait, withEviction } from "./evictions.ts";

/** Ends in the window after which a replica may still come back at once. */
const endsMax = 5;
const windowMs = 600_000;
/** Replicas whose ends are remembered. */
const idsMax = 256;

/** Remembers that a life of a replica ended by its own word, or because the next one came. Whoever has a place on a node is that node's matter. Pure. */
export function noteUnseenEnd(state: ControllerState, { id, role, host, pid }: Member): ControllerState {
  if (role === "node" || state.fleet.replicas[id]?.node) return state;
  const { restarts = {}, nowMs } = state;
  const recent = (restarts[id]?.times ?? []).filter((atMs) => nowMs - atMs < windowMs);
  const times = [...recent, nowMs].slice(-(endsMax + 1));
  const kept = Object.entries(without(restarts, id)).slice(-(idsMax - 1));
  return { ...state, restarts: { ...Object.fromEntries(kept), [id]: { times, host, pid } } };
}

/** The end of a process was seen after all: whoever saw it counts what it starts. Pure. */
export function forgetSeenEnd(
  state: ControllerState,
  { id, host, pid }: Pick<Body<"process.exited">, "id" | "host" | "pid">,
): ControllerState {
  const known = state.restarts?.[id];
  if (!known || known.host !== host || known.pid !== pid) return state;
  const times = known.times.slice(0, -1);
  const others = without(state.restarts ?? {}, id);
  return { ...state, restarts: times.length > 0 ? { ...others, [id]: { ...known, times, pid: 0 } } : others };
}

/** Lets a new life wait whose replica ended too often. Pure. */
export function holdRestarts(
  state: ControllerState,
  to: { readonly id: string; readonly incarnation: string },
  { host, pid }: Pick<Body<"replica.register">, "host" | "pid">,
): Change<ControllerState> {
  const known = state.restarts?.[to.id];
  const ends = (known?.times ?? []).filter((atMs) => state.nowMs - atMs < windowMs).length;
  const isNoted = mustWait(state, to.id) || state.waiting[to.id]?.incarnation === to.incarnation;
  if (!known || ends <= endsMax || isNoted) return { state, effects: [] };
  const held = withEviction(state, { id: to.id, host: known.host, pid: known.pid });
  const pauseMs = Math.round((held.evictions[to.id]?.untilMs ?? 0) - held.nowMs);
  const detail = `${to.id} ended and started again more than ${endsMax} times within ten minutes, and no node or supervisor of the job saw how; it is back as process ${pid} of ${host} and is admitted in ${pauseMs} ms; see what it wrote before its ends`;
  return { state: held, effects: [announce("alarm.raised", { alarm: "flapping", detail })] };
}
