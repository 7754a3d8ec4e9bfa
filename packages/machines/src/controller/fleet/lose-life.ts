/**
 * Replicas of several processes begin and end as one. No node starts a process of one again by itself: the end of any of them is the end of that life
 * of the replica, whose other processes are ended by their nodes, and the next life begins when none of the last one is left.
 */
import type { FailureKind } from "@muster/protocol";
import { deathsMax, deathWindowMs, goodLifeMs, restartDelayMs } from "../../restart-rule.ts";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import { endMember } from "../members/apply-membership.ts";
import type { ControllerState } from "../state.ts";
import { changed } from "./changed.ts";
import { type FleetGroup, type FleetReplica, withReplica } from "./fleet-state.ts";
import { endHopeless } from "./hopeless.ts";
import { isNeeded, spare } from "./last-trainer.ts";

/** How a life of a replica of several processes ended. */
export interface Loss {
  /** Who, where and how, in words. */
  readonly evidence: string;
  readonly by: "exit" | "disconnect";
  readonly failure?: FailureKind;
  /** On which node it happened; it is the one that is given up with it. */
  readonly node: string;
  /** False for an end that says nothing against the program. */
  readonly isCounted: boolean;
  /** It was killed from outside: after a good life that counts for nothing, as a node has it for replicas of one process. */
  readonly isKill?: boolean;
}

/** Ends the life of a replica of several processes: once, whoever of it ends first. The member is out, and its work goes to others at once. Pure. */
export function loseLife(state: ControllerState, id: string, loss: Loss): Change<ControllerState> {
  const member = state.members[id];
  const replica = state.fleet.replicas[id];
  if (!replica?.group) return { state, effects: [] };
  const ended = nextLife(state, id, replica, loss);
  const { evidence, by, failure, isKill } = loss;
  const how = { evidence, by, silentMs: 0, ...(failure ? { failure } : {}), ...(isKill ? { isKill } : {}) };
  const out = member ? endMember(ended.state, member, how) : { state: ended.state, effects: [] };
  const seen: readonly ControllerEffect[] =
    member || !loss.isCounted
      ? []
      : [changed(id, ended.state.fleet.replicas[id] ?? replica, { health: replica.health, reason: evidence })];
  return { state: out.state, effects: [...seen, ...out.effects, ...ended.effects] };
}

/** A state in which another life is due, or the replica is given up. Pure. */
export function nextLife(
  state: ControllerState,
  id: string,
  { life, deaths, group, health, role, leaving }: FleetReplica,
  { evidence, node, isCounted, isKill }: Loss,
): Change<ControllerState> {
  if (!group) return { state, effects: [] };
  const { nowMs } = state;
  const recent = group.losses.filter((atMs) => nowMs - atMs < deathWindowMs);
  const isGood = isKill && group.begunAtMs !== null && nowMs - group.begunAtMs >= goodLifeMs;
  const isLoss = isCounted && !leaving;
  const losses = !isLoss ? recent : isGood ? [] : [...recent, nowMs].slice(-(deathsMax + 1));
  const restartAtMs = isLoss ? nowMs + restartDelayMs(losses.length) : group.restartAtMs;
  const patch = { life: life + 1, deaths: deaths + (isLoss ? 1 : 0) };
  const next: FleetGroup = { ...group, master: null, begunAtMs: null, restartAtMs, losses };
  // Who is given up already, and now loses the node where that was, is not given up again.
  if (losses.length <= deathsMax || health === "RETIRED")
    return { state: withReplica(state, id, { ...patch, group: next }), effects: [] };
  const reason = `it ended ${losses.length} times in ${deathWindowMs / 60_000} minutes, the last time because ${evidence}`;
  if (isNeeded(state, id))
    return spare(withReplica(state, id, { ...patch, group: { ...next, losses: [] } }), id, reason);
  const given = { ...patch, health: "RETIRED" as const, node, process: null, group: { ...next, ranks: [] } };
  const retired = withReplica(state, id, given);
  const before = state.fleet.replicas[id];
  const effects = before ? [changed(id, before, { health: "RETIRED", reason })] : [];
  const detail = `${id} (${role}, ${group.ranks.length + 1} ranks) is given up: ${reason}`;
  return {
    state: endHopeless(retired, role, detail),
    effects: [...effects, announce("alarm.raised", { alarm: "retired", detail })],
  };
}
