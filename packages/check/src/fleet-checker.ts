/** Nodes and operators: no orphan lives on, what is wanted runs, a command happens once, joiners come together, and nobody keeps a place that was given away (F1 to F7). */
import {
  type ControllerEvent,
  type ControllerState,
  type FleetRank,
  type FleetReplica,
  processesOf,
  ranksOf,
} from "@muster/machines/controller";
import { type ReplicaRole, replicaRoles } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import { joinedIn } from "./member-changes.ts";
import type { Timeline } from "./observed.ts";

/** A process as this checker sees it. */
export interface Watched {
  readonly name: string;
  readonly node: string;
  readonly pid: number;
  readonly isDead: boolean;
  readonly state: string;
  onDeath(run: () => void): void;
}

/** An orphan has a second; the rest is for the moments in which it hears of it. */
const orphanMs = 2_500;

type Fleet = ControllerState["fleet"];
type CommandEvent = Extract<ControllerEvent, { body: { commandId?: string | undefined } }>;

/** The model of nodes, their processes and the operator's commands. */
export class FleetChecker {
  readonly #world: Timeline;
  readonly #judge: Judge;
  readonly #calmMs: number;
  /** Processes by the name of the node that started them. */
  readonly #children = new Map<string, Watched[]>();
  /** Nodes by the number of a process that they started. */
  readonly #parents = new Map<number, string>();
  readonly #known = new Set<string>();
  readonly #cordoned = new Set<string>();
  readonly #ends = new Map<string, string>();
  /** Roles that were whole since the faults are over. */
  readonly #whole = new Set<ReplicaRole>();
  #grownAtMs = Number.NEGATIVE_INFINITY;
  #term = 0;

  constructor(world: Timeline, judge: Judge, calmMs: number) {
    this.#world = world;
    this.#judge = judge;
    this.#calmMs = calmMs;
  }

  /** A node started the process of a replica. */
  bore(node: Watched, child: Watched): void {
    const own = (this.#children.get(node.node) ?? []).filter((other) => !other.isDead);
    this.#children.set(node.node, [...own, child]);
    this.#parents.set(child.pid, node.node);
    node.onDeath(() => this.#world.after(orphanMs, () => this.#checkOrphan(node, child, false)));
  }

  /** A node has cleaned up: it says that it can run replicas. */
  ready(node: Watched): void {
    for (const child of this.#children.get(node.node) ?? [])
      this.#judge.require(
        child.isDead,
        "F2",
        () => `${node.name} is ready, and ${child.name} of its earlier life lives`,
      );
  }

  /** A decision was journaled. */
  decided(decision: Decision): void {
    const { event, before, after } = decision;
    if (event.type === "controller.elected") this.#term = after.term;
    this.#checkGrowth(decision);
    if (before.members !== after.members) this.#checkMoves(decision);
    if (before.members !== after.members) this.#checkAdmissions(decision);
    if (before.fleet === after.fleet) return;
    if ("body" in event && "commandId" in event.body && event.body.commandId !== undefined)
      this.#checkCommand(event as CommandEvent, before.fleet, after.fleet);
    this.#checkPlaces(before, after);
    this.#checkScales(before.fleet, after.fleet);
    this.#checkReplacements(before.fleet, after.fleet);
    if (this.#world.nowMs > this.#calmMs) this.#noteWhole(after.fleet);
  }

  /** The end of a command was said: every time it is the same one. */
  done(id: string, end: string): void {
    const known = this.#ends.get(id) ?? end;
    this.#ends.set(id, known);
    this.#judge.require(known === end, "F4", () => `command ${id} is ${end}, and was ${known}`);
  }

  /** Some time after the faults: every role has been as many as is wanted. */
  checkWhole({ fleet, ending, stopped }: ControllerState): void {
    if (ending || stopped || Object.keys(fleet.nodes).length === 0) return;
    this.#noteWhole(fleet);
    for (const role of replicaRoles)
      this.#judge.require(
        this.#whole.has(role),
        "F3",
        () => `${fleet.wanted[role]} ${role} are wanted, ${healthyOf(fleet, role)} are healthy`,
      );
  }

  /** An orphan that runs has a second; one that stands still is looked at again. */
  #checkOrphan(node: Watched, child: Watched, ran: boolean): void {
    if (child.isDead) return;
    const runs = child.state === "running";
    this.#judge.require(!(runs && ran), "F1", () => `${child.name} lives on, ${node.name} that started it is gone`);
    if (!(runs && ran)) this.#world.after(orphanMs, () => this.#checkOrphan(node, child, runs));
  }

  /** A command that was seen before changes nothing. */
  #checkCommand({ type, body: { commandId: id = "" } }: CommandEvent, before: Fleet, after: Fleet): void {
    const isNew = !this.#known.has(id);
    this.#known.add(id);
    const answer = after.commands[id]?.answer;
    const target = after.commands[id]?.asked;
    if (isNew && answer?.outcome !== "refused" && target !== undefined) this.#noteCordon(type, target);
    const same = isNew || (before.wanted === after.wanted && before.commandsMade === after.commandsMade);
    this.#judge.require(same, "F4", () => `command ${id} came again and was done again`);
  }

  #noteCordon(type: string, asked: string): void {
    const { id } = JSON.parse(asked) as { readonly id?: string };
    if (type === "fleet.cordon" && id !== undefined) this.#cordoned.add(id);
    if (type === "fleet.uncordon" && id !== undefined) this.#cordoned.delete(id);
  }

  /** What is placed is placed on a node that lives, is free for it, and has room. */
  #checkPlaces({ fleet: before }: ControllerState, { fleet, members }: ControllerState): void {
    for (const [id, replica] of Object.entries(fleet.replicas)) {
      const { node, role } = replica;
      this.#judge.require(
        node === null || node in fleet.nodes,
        "F5",
        () => `${id} is placed on ${node}, which is gone`,
      );
      if (node === null || before.replicas[id]?.node === node) continue;
      const limit = fleet.nodes[node]?.capacity[role] ?? Number.POSITIVE_INFINITY;
      const used = Object.values(fleet.replicas)
        .filter((other) => other.role === role)
        .flatMap((other) => ranksOf(other))
        .filter((rank) => rank.node === node).length;
      this.#judge.require(members[node]?.role === "node", "F5", () => `${id} is placed on ${node}, which is no member`);
      this.#judge.require(!this.#cordoned.has(node), "F5", () => `${id} is placed on ${node}, which is cordoned`);
      this.#judge.require(used <= limit, "F5", () => `${node} has ${used} ${role}, it has room for ${limit}`);
      if (replica.group) this.#checkRanks(id, replica, fleet);
    }
  }

  /** Every rank is placed on a node that knows of ranks: another one would leave them aside. */
  #checkRanks(id: string, replica: FleetReplica, { nodes }: Fleet): void {
    for (const [rank, { node }] of ranksOf(replica).entries())
      this.#judge.require(
        nodes[node]?.capabilities?.includes("ranks") === true,
        "F5",
        () => `rank ${rank} of ${id} is placed on ${node}, which does not say that it can run ranks`,
      );
  }

  /** A scaling is done when as many are healthy as were asked for, never because an order was sent. */
  #checkScales(before: Fleet, after: Fleet): void {
    for (const [id, { kind, answer, asked }] of Object.entries(after.commands)) {
      if (kind !== "fleet.scale" || answer?.outcome !== "done" || before.commands[id]?.answer) continue;
      const roles = replicaRoles.filter((role) => Object.hasOwn(JSON.parse(asked) as object, role));
      for (const role of roles) {
        const healthy = healthyOf(after, role);
        const surplus = Object.values(after.replicas).filter((each) => each.role === role && each.leaving).length;
        this.#judge.require(
          healthy === after.wanted[role] && surplus === 0,
          "F3",
          () => `command ${id} is done: ${after.wanted[role]} ${role} wanted, ${healthy} healthy, ${surplus} too many`,
        );
      }
    }
  }

  /** Whoever is replaced stays until its successor is healthy. */
  #checkReplacements(before: Fleet, after: Fleet): void {
    for (const [id, { replacedBy, leaving }] of Object.entries(after.replicas)) {
      if (replacedBy === null || !leaving || before.replicas[id]?.leaving !== false) continue;
      if (Object.values(after.commands).some(({ kind, target }) => kind === "replica.drain" && target === id)) continue;
      const successor = after.replicas[replacedBy] ?? before.replicas[replacedBy];
      this.#judge.require(
        successor?.health === "HEALTHY",
        "F3",
        () => `${id} leaves for ${replacedBy}, which is ${successor?.health}`,
      );
    }
  }

  /** What runs on a node that leaves goes without a successor only where no other node has room for one, or no time is left. */
  #checkMoves({ event, before, after }: Decision): void {
    for (const [id, replica] of Object.entries(after.fleet.replicas)) {
      const { role, node, leaving } = replica;
      const [was, is] = [before.members[id], after.members[id]];
      const isTold =
        was && was.health !== "draining" && is?.health === "draining" && was.incarnation === is.incarnation;
      const isAsked = event.type === "replica.draining" && event.from === id;
      if (!isTold || isAsked || leaving || node === null || role !== "rollout" || after.ending) continue;
      // The node of any rank takes all of them with it.
      const dues = ranksOf(replica).map(
        (rank) => after.fleet.nodes[rank.node]?.leaveDueAtMs ?? Number.POSITIVE_INFINITY,
      );
      const dueAtMs = Math.min(...dues);
      const place = placesFor(before, role).find((other) => placesFor(after, role).includes(other));
      this.#judge.require(
        place === undefined || after.nowMs >= dueAtMs,
        "F3",
        () => `${id} leaves with ${node}, ${place} has room and nobody took its place`,
      );
    }
  }

  /** Whoever is admitted was started where the fleet wants it: what a lost node still runs has no place any more. */
  #checkAdmissions({ before, after }: Decision): void {
    for (const { id, pid } of joinedIn(before, after)) {
      const node = after.fleet.replicas[id]?.node ?? null;
      if (node === null) continue;
      const parent = this.#parents.get(pid);
      this.#judge.require(
        parent === node,
        "F7",
        () => `${id} is admitted from ${parent ?? "no node"}, its place is on ${node}`,
      );
    }
  }

  /** Epochs that only take joiners in are apart by the time in which joiners are gathered. */
  #checkGrowth({ before, after, event, effects }: Decision): void {
    const isWhole = before.mesh.state === "ready" || before.mesh.state === "building";
    // A step that is tried again has a new epoch anyway.
    const isRetry = effects.some((effect) => effect.type === "announce" && effect.kind === "step.retried");
    if (after.mesh.epoch === before.mesh.epoch || !isWhole || isRetry) return;
    const ranks = new Set(after.mesh.members);
    const isGrowth = before.mesh.members.every(
      (id) => ranks.has(id) && before.members[id]?.incarnation === after.members[id]?.incarnation,
    );
    const isNewTerm = event.type === "controller.elected" || after.term !== this.#term;
    if (!isGrowth || isNewTerm || after.mesh.members.length === before.mesh.members.length) return;
    // Times of the controller's own clock, whose rate may be a little off.
    const gapMs = after.nowMs - this.#grownAtMs;
    this.#grownAtMs = after.nowMs;
    const leastMs = after.plan.timing.joinMs;
    this.#judge.require(
      gapMs < 0 || gapMs >= leastMs,
      "F6",
      () =>
        `epoch ${after.mesh.epoch} takes joiners in ${Math.round(gapMs)} ms after the last one, ${leastMs} ms gather them`,
    );
  }

  #noteWhole(fleet: Fleet): void {
    for (const role of replicaRoles) if (healthyOf(fleet, role) === fleet.wanted[role]) this.#whole.add(role);
  }
}

function healthyOf({ replicas }: Fleet, role: ReplicaRole): number {
  return Object.values(replicas).filter((each) => each.role === role && !each.leaving && each.health === "HEALTHY")
    .length;
}

/** Nodes that alone can take one more replica of a role, all of its processes. */
function placesFor(state: ControllerState, role: ReplicaRole): readonly string[] {
  const { fleet, members, plan } = state;
  const count = processesOf(state, role);
  const needed = (plan.devices?.[role] ?? 0) * count;
  return Object.keys(fleet.nodes).filter((id) => {
    const own = processesOn(fleet, id).filter((each) => each.replica.role === role);
    const limit = fleet.nodes[id]?.capacity[role] ?? Number.POSITIVE_INFINITY;
    const isBad = fleet.cordoned.includes(id) || own.some(({ replica }) => replica.health === "RETIRED");
    const can = count === 1 || fleet.nodes[id]?.capabilities?.includes("ranks") === true;
    const hasRoom = own.length + count <= limit && freeOn(fleet, members, id) >= needed;
    return members[id]?.health === "healthy" && !isBad && can && hasRoom;
  });
}

/** Devices of a node that nobody has. */
function freeOn(fleet: Fleet, members: ControllerState["members"], node: string): number {
  const own = processesOn(fleet, node).filter(({ replica }) => replica.health !== "RETIRED");
  const taken = own.reduce((sum, { rank: { devices = [] } }) => sum + devices.length, 0);
  return (members[node]?.devices?.length ?? 0) - taken;
}

/** All ranks that have their place on a node. */
function processesOn(
  { replicas }: Fleet,
  node: string,
): { readonly replica: FleetReplica; readonly rank: FleetRank }[] {
  return Object.values(replicas).flatMap((replica) =>
    ranksOf(replica).flatMap((rank) => (rank.node === node ? [{ replica, rank }] : [])),
  );
}
