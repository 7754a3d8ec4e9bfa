/**
 * Health of managed replicas, exactly as semantics 1 DO: `STARTING → HEALTHY ⇄ SUSPECT → DEAD → RESTARTING → STALE → HEALTHY`, and
 * `RETIRED`. It follows from the members and from what they acknowledged, never from a probe alone.
 */
import { traitsOf } from "@muster/protocol";
import type { Change, ControllerEffect } from "../events.ts";
import { type ControllerState, holdsCurrent, type Member } from "../state.ts";
import { changed } from "./changed.ts";
import { type FleetHealth, type FleetReplica, withReplica } from "./fleet-state.ts";
import { nextLife } from "./lose-life.ts";
import { isOnLeaving } from "./plan-fleet.ts";

/** What is true of a replica now. */
export interface HealthFacts {
  /** The life that was seen last is a member. */
  readonly isSameLife: boolean;
  /** Some life was a member. */
  readonly wasMember: boolean;
  /** Some life is a member. */
  readonly isMember: boolean;
  /** It acknowledged the digests of the committed version; true of roles that hold none. */
  readonly isHolding: boolean;
  readonly isSuspect: boolean;
  readonly isLeaving: boolean;
  /** A node will run it again. */
  readonly isPlaced: boolean;
}

/**
 * The next health; at most one move. DEAD and RESTARTING do not look at suspicion: being heard again proves nothing there. STARTING and STALE
 * become HEALTHY only by an acknowledged digest, and not while suspected: a command would be done by what is HEALTHY for no time. Pure.
 */
export function nextHealth(health: FleetHealth, facts: HealthFacts): FleetHealth {
  if (health === "RETIRED" || health === "LEFT" || health === "DRAINING") return health;
  if (facts.isLeaving) return "DRAINING";
  switch (health) {
    case "STARTING":
      if (facts.wasMember && !facts.isSameLife) return "DEAD";
      return facts.isMember && facts.isHolding && !facts.isSuspect ? "HEALTHY" : health;
    case "HEALTHY":
      if (!facts.isSameLife) return "DEAD";
      return facts.isSuspect ? "SUSPECT" : health;
    case "SUSPECT":
      if (!facts.isSameLife) return "DEAD";
      return facts.isSuspect ? health : "HEALTHY";
    case "DEAD":
      return facts.isPlaced ? "RESTARTING" : health;
    case "RESTARTING":
      return facts.isMember ? "STALE" : health;
    case "STALE":
      if (!facts.isSameLife) return "DEAD";
      return facts.isHolding && !facts.isSuspect ? "HEALTHY" : health;
  }
}

/** Moves every managed replica to the health that it has earned. A dead one whose process still runs is to be ended by its node. Pure. */
export function planHealth(state: ControllerState): Change<ControllerState> | null {
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const [id, replica] of Object.entries(state.fleet.replicas)) {
    const member = state.members[id];
    const health = nextHealth(replica.health, factsOf(state, replica, member));
    const patch = { ...seenOf(replica, member, health), ...(health === replica.health ? {} : { health }) };
    if (Object.keys(patch).length === 0) continue;
    next = withReplica(next, id, patch);
    if (health !== replica.health) effects.push(changed(id, replica, { health, reason: reasons[health] }));
    if (health === "DEAD" && health !== replica.health && replica.group) {
      const over = whenEvicted(next, id, replica);
      next = over.state;
      effects.push(...over.effects);
    }
  }
  return next === state ? null : { state: next, effects };
}

const reasons: Readonly<Record<FleetHealth, string>> = {
  STARTING: "placed on a node",
  HEALTHY: "it acknowledged the committed version",
  SUSPECT: "it is suspected: no new work, and no weights from it",
  DEAD: "it is no member any more",
  RESTARTING: "its node starts it again",
  STALE: "it is back and has to get the committed version",
  DRAINING: "it is released",
  RETIRED: "it keeps ending",
  LEFT: "it is gone",
};

/** A life of several processes whose member is gone: the others end with it. It is over already where the end of a process was what evicted it. */
function whenEvicted(state: ControllerState, id: string, replica: FleetReplica): Change<ControllerState> {
  const { node, group } = replica;
  const isRunning = replica.process !== null && replica.process.life >= replica.life;
  if (!isRunning || node === null || group?.begunAtMs === null) return { state, effects: [] };
  const evidence = `${id} is no member any more`;
  const now = state.fleet.replicas[id] ?? replica;
  return nextLife(state, id, now, {
    evidence,
    by: "disconnect",
    node,
    isCounted: !isOnLeaving(state, replica),
    isKill: true,
  });
}

function factsOf(state: ControllerState, replica: FleetReplica, member: Member | undefined): HealthFacts {
  return {
    wasMember: replica.member !== null,
    isMember: member !== undefined,
    isSameLife: member !== undefined && member.incarnation === replica.member?.incarnation,
    isHolding: member !== undefined && (!traitsOf(replica.role).holdsWeights || holdsCurrent(state, member)),
    isSuspect: member?.health === "suspect",
    // Whoever goes because the job is over is not a death, and nobody starts it again.
    isLeaving: replica.leaving || state.ending?.announced === true,
    isPlaced: replica.node !== null,
  };
}

/** What is remembered of a member that came, and what its death asks of its node. */
function seenOf(replica: FleetReplica, member: Member | undefined, health: FleetHealth): Partial<FleetReplica> {
  const isSettled = health === "STARTING" || health === "HEALTHY" || health === "STALE" || health === "DRAINING";
  if (isSettled && member && member.incarnation !== replica.member?.incarnation)
    return { member: { incarnation: member.incarnation, pid: member.pid } };
  if (health !== "DEAD" || replica.health === "DEAD") return {};
  // Evicted and still running: only another process is to be trusted again.
  const running = replica.process;
  const isRunning = !replica.group && !member && running !== null && running.pid === replica.member?.pid;
  return isRunning ? { life: Math.max(replica.life, running.life + 1) } : {};
}
