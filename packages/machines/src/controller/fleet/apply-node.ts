/** What nodes report: facts into the tables, nothing decided. */
import { isKillSignal } from "../../restart-rule.ts";
import { announce, type Change, type ReportOf } from "../events.ts";
import { type ControllerState, withMember } from "../state.ts";
import { changed } from "./changed.ts";
import { noteFailedStart } from "./failed-starts.ts";
import { type FleetGroup, type FleetReplica, withFleet, withReplica } from "./fleet-state.ts";
import { endHopeless } from "./hopeless.ts";
import { isNeeded, spare } from "./last-trainer.ts";
import { type Loss, loseLife } from "./lose-life.ts";
import { ranksOf, withEnded, withoutLeftovers, withProcess } from "./ranks.ts";

const unchanged = (state: ControllerState): Change<ControllerState> => ({ state, effects: [] });

/** A node can run replicas now. Pure. */
export function applyReady(state: ControllerState, event: ReportOf<"node.ready">): Change<ControllerState> {
  const { from, incarnation, body } = event;
  const { capacity, address, capabilities } = body;
  const node = {
    ...{ incarnation, capacity, revision: 0, acked: 0, signs: [], assigned: "" },
    ...(address === undefined ? {} : { address }),
    ...(capabilities === undefined ? {} : { capabilities }),
  };
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
  if (replica?.group) return unchanged(rankStarted(state, event, replica.group));
  if (replica?.node !== event.from || life <= replica.ended) return unchanged(state);
  return unchanged(withReplica(state, id, { process: { pid, life }, life: Math.max(replica.life, life) }));
}

/** A rank began. That of rank 0 says where the others of its life meet it. */
function rankStarted(
  state: ControllerState,
  { from, body }: ReportOf<"process.started">,
  group: FleetGroup,
): ControllerState {
  const { id, pid, life, rank = 0, port } = body;
  const replica = state.fleet.replicas[id];
  const own = replica && ranksOf(replica)[rank];
  // Said again after its end, it would be waited for for ever: it ends no second time.
  if (!replica || own?.node !== from || life <= (own.ended ?? 0)) return state;
  const isNow = rank === 0 && life === replica.life && port !== undefined;
  const begun = isNow ? { ...group, master: { life, port }, begunAtMs: state.nowMs } : group;
  return withProcess(withReplica(state, id, { group: begun }), { id, rank }, { pid, life });
}

/**
 * A process of the fleet ended. Its node starts it again, unless it left by itself: then another life is asked for, as long as the
 * replica is wanted. Of a replica of several processes, all end with it. Pure.
 */
export function applyProcessEnd(state: ControllerState, event: ReportOf<"process.exited">): Change<ControllerState> {
  const replica = state.fleet.replicas[event.body.id];
  return replica?.group ? rankEnded(state, event, replica) : unchanged(soleEnded(state, event));
}

/** A rank ended: with it ends the life of its replica, unless that one is over already, or leaves. */
function rankEnded(
  state: ControllerState,
  { from, body }: ReportOf<"process.exited">,
  replica: FleetReplica,
): Change<ControllerState> {
  const { id, host, pid, code, signal, oom = false, life = 0, rank = 0, words } = body;
  const own = ranksOf(replica)[rank];
  const known = withoutLeftovers(state, id, (left) => left.node === from && left.pid === pid);
  if (own?.node !== from) return unchanged(known);
  const isIt = own.process === null || own.process.pid === pid;
  const ended = withEnded(isIt ? withProcess(known, { id, rank }, null) : known, { id, rank }, life);
  if (life < replica.life || replica.health === "RETIRED") return unchanged(ended);
  const noted = words === undefined || replica.leaving ? ended : noteFailedStart(ended, replica.role, words);
  const isLeaving = replica.leaving || state.members[id]?.health === "draining";
  // While it leaves, rank 0 hands back its work and goes by its own word.
  if (isLeaving && rank > 0) return unchanged(noted);
  const how = oom ? "it was short of memory" : (signal ?? `code ${code}`);
  const evidence = `rank ${rank} of ${id} on ${host} (process ${pid}) ended with ${how}${words === undefined ? "" : `: ${words}`}`;
  const failure = oom ? "oom" : "engine_crash";
  const loss: Loss = { evidence, by: "exit", failure, node: from, isCounted: !(rank === 0 && code === 0) };
  return loseLife(noted, id, { ...loss, isKill: isKillSignal(signal) && !oom });
}

function soleEnded(state: ControllerState, event: ReportOf<"process.exited">): ControllerState {
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

/**
 * A node gave a replica up. Another one takes its place where there is room; with no policy replica at all there is nothing to go on with, so the last one
 * begins again as long as its batch may be what ends it. Pure.
 */
export function applyRetired(state: ControllerState, event: ReportOf<"process.retired">): Change<ControllerState> {
  const { id, life, deaths, reason } = event.body;
  const replica = state.fleet.replicas[id];
  if (replica?.node !== event.from || replica.health === "RETIRED") return unchanged(state);
  if (isNeeded(state, id))
    return spare(withReplica(state, id, { life: Math.max(replica.life, life + 1), process: null }), id, reason);
  const detail = `${id} is given up on ${event.from}: ${reason}`;
  const next = withReplica(state, id, { health: "RETIRED", deaths, process: null });
  const effects = [
    changed(id, replica, { health: "RETIRED", reason }),
    announce("alarm.raised", { alarm: "retired", detail }),
  ];
  return { state: endHopeless(next, replica.role, detail), effects };
}
