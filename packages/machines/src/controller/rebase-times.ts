/**
 * The clocks of two controllers have nothing in common, so a new one moves every time of the state to its own clock. The time between the two
 * counts for nobody.
 */
import type { PathsOfTimes } from "./at-ms.ts";
import type { ControllerState } from "./state.ts";

/**
 * Every time of the state, and whether somebody's answer is due then: it may have come while nobody listened, so some time is always left to
 * hear it. A time without a row does not compile.
 */
const times: Readonly<Record<PathsOfTimes<Omit<ControllerState, "plan">>, "moment" | "answer">> = {
  nowMs: "moment",
  "members.*.hungAtMs": "moment",
  "members.*.recoveries.*": "moment",
  "members.*.retryAtMs": "moment",
  "members.*.order.dueAtMs": "answer",
  "members.*.owed.dueAtMs": "answer",
  "members.*.memory.asked.dueAtMs": "answer",
  "members.*.memory.retryAtMs": "moment",
  "evictions.*.times.*": "moment",
  "evictions.*.untilMs": "moment",
  "restarts.*.times.*": "moment",
  "progress.atMs": "moment",
  "outsideLosses.*": "moment",
  "losses.*.outside.*": "moment",
  "mesh.dueAtMs": "answer",
  "mesh.joinDueAtMs": "moment",
  "step.startedAtMs": "moment",
  "step.dueAtMs": "answer",
  "groups.*.queue.*.dueAtMs": "moment",
  "leases.*.dueAtMs": "answer",
  "groupsFill.atMs": "moment",
  "heldBack.sinceMs": "moment",
  "heldBack.untilMs": "answer",
  "checkpoints.dueAtMs": "answer",
  "fleet.nodes.*.leaveDueAtMs": "answer",
  "fleet.replicas.*.group.begunAtMs": "moment",
  "fleet.replicas.*.group.restartAtMs": "moment",
  "fleet.replicas.*.group.losses.*": "moment",
  "fleet.shortage.sinceMs": "moment",
  "barriers.table.*.openedAtMs": "moment",
  "barriers.table.*.dueAtMs": "answer",
  "barriers.table.*.saidAtMs": "moment",
  endDueAtMs: "answer",
};

/** The state on the clock of a controller for which it is `nowMs`; at least `leastMs` are left to answer. Pure. */
export function rebaseTimes(state: ControllerState, nowMs: number, leastMs: number): ControllerState {
  const aheadMs = nowMs - state.nowMs;
  return Object.entries(times).reduce((next, [path, kind]) => {
    const earliestMs = kind === "answer" ? nowMs + leastMs : Number.NEGATIVE_INFINITY;
    return changeAt(next, path.split("."), (atMs) => Math.max(atMs + aheadMs, earliestMs)) as ControllerState;
  }, state);
}

/** A copy of plain JSON with the numbers at a path changed; where the path leads nowhere nothing is. */
function changeAt(value: unknown, [key, ...rest]: readonly string[], change: (n: number) => number): unknown {
  if (key === undefined) return typeof value === "number" ? change(value) : value;
  if (typeof value !== "object" || value === null) return value;
  const changed = (part: unknown): unknown => changeAt(part, rest, change);
  if (Array.isArray(value)) return value.map(changed);
  if (key === "*") return Object.fromEntries(Object.entries(value).map(([id, part]) => [id, changed(part)]));
  return key in value ? { ...value, [key]: changed((value as Readonly<Record<string, unknown>>)[key]) } : value;
}
