/** What nodes report: facts into the tables, nothing decided. */
import { announce, type Change, type ReportOf } from "../events.ts";
import { type ControllerState, withMember } from "../state.ts";
import { noteFailedStart } from "./failed-starts.ts";
import { changed } from "./fleet-health.ts";
import { withFleet, withReplica } from "./fleet-state.ts";
import { roomFor } from "./plan-fleet.ts";

const unchanged = (state: ControllerState): Change<ControllerState> => ({ state, effects: [] });

/** A node can run replicas now. Pure. */
export function applyReady(state: ControllerState, event: ReportOf<"node.ready">): Change<ControllerState> {
  const { from, incarnation, body } = event;
  const node = { incarnation, capacity: body.capacity, revision: 0, acked: 0, signs: [], assigned: "" };
  return unchanged(withFleet(state, { nodes: { ...state.fleet.nodes, [from]: node } }));
}

/** A node works on an assignment. Pure. */
export function applyAssigned(state: ControllerState, event: ReportOf<"node.assigned">): Change<ControllerState> {
  const { revision } = event.body;
  const node = state.fleet.nodes[event.from];
  if (!node || revision !== node.revision) return unchanged(state);
  const nodes = { ...state.fleet.nodes, [event.from]: { ...node, acked: revision } };
  return unchanged(withMember(withFleet(state, { nodes }), event.from, { order: null, unanswered: 0 }));
}

/** A node started a process. Of a replica that was placed elsewhere since, or of a life that has ended, it is old news. Pure. */
export function applyStarted(state: ControllerState, event: ReportOf<"process.started">): Change<ControllerState> {
  const { id, pid, life } = event.body;
  const replica = state.fleet.replicas[id];
  if (replica?.node !== event.from || life <= replica.ended) return unchanged(state);
  return unchanged(withReplica(state, id, { process: { pid, life }, life: Math.max(replica.life, life) }));
}

/**
 * A process of the fleet ended. Its node starts it again, unless it left by itself: then another life is asked for, as long as the
 * replica is wanted. Pure.
 */
export function applyProcessEnd(state: ControllerState, event: ReportOf<"process.exited">): ControllerState {
  const { id, pid, code, life = 0, words } = event.body;
  const replica = state.fleet.replicas[id];
  if (!replica || (replica.node !== event.from && replica.process?.pid !== pid)) return state;
  const noted = words === undefined || replica.leaving ? state : noteFailedStart(state, replica.role, words);
  const isIt = replica.process === null || replica.process.pid === pid;
  const hasLeft = code === 0;
  return withReplica(noted, id, {
    process: isIt ? null : replica.process,
    ended: Math.max(replica.ended, life),
    deaths: replica.deaths + (hasLeft || replica.leaving ? 0 : 1),
    life: hasLeft ? Math.max(replica.life, life + 1) : replica.life,
  });
}

/** A node gave a replica up. Another one takes its place where there is room; with no policy replica at all there is nothing to go on with. Pure. */
export function applyRetired(state: ControllerState, event: ReportOf<"process.retired">): Change<ControllerState> {
  const { id, deaths, reason } = event.body;
  const replica = state.fleet.replicas[id];
  if (replica?.node !== event.from || replica.health === "RETIRED") return unchanged(state);
  const detail = `${id} is given up on ${event.from}: ${reason}`;
  const next = withReplica(state, id, { health: "RETIRED", deaths, process: null });
  const effects = [
    changed(id, replica, { health: "RETIRED", reason }),
    announce("alarm.raised", { alarm: "retired", detail }),
  ];
  const policies = Object.values(next.fleet.replicas).filter(({ role }) => role === "policy");
  const neverBegan = !state.weights && state.restore.lineage === 0 && !state.ending;
  const isHopeful = policies.some(({ health }) => health !== "RETIRED") || roomFor(next, "policy") !== null;
  if (!neverBegan || replica.role !== "policy" || isHopeful) return { state: next, effects };
  const ending = { outcome: "failed", reason: `no policy replica could start: ${detail}`, announced: false } as const;
  return { state: { ...next, ending }, effects };
}
