/** A controller and its fleet, for tests: it is told what nodes and replicas do. */
import type { ControllerEvent, ControllerPlan, ControllerState, Member } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import { type Body, nodeCapabilities, type RankOrder, type ReplicaRole } from "@muster/protocol";
import { initialControllerState } from "../src/controller/state.ts";
import { planWith } from "./states.ts";

const capacity = { policy: null, rollout: null, checkpoint: null };

interface Joining {
  readonly host?: string;
  readonly life?: number;
  readonly devices?: readonly string[];
  readonly node?: string;
}

/** A controller that is told what nodes and replicas do, and what it says of it. */
export class Job {
  state: ControllerState;
  /** Nodes that join say where their host is reached. */
  hasNetwork = false;
  /** What nodes that join can do beyond the first version; `null` for those that do not say. */
  capabilities: readonly string[] | null = nodeCapabilities;
  said: ReturnType<typeof control>["effects"] = [];
  #pids = 100;
  #others = 0;

  constructor(wanted = { policy: 1, rollout: 2, checkpoint: 0 }, patch: Partial<ControllerPlan> = {}) {
    const initReplicas = { policy: 1, rollout: 1 };
    const plan = planWith({ replicas: wanted, checkpointReplicas: 0, initReplicas, ...patch });
    this.state = initialControllerState(plan);
    this.hear({ type: "controller.elected", atMs: 0, term: 1 });
  }

  hear(event: object): this {
    const { state, effects } = control(this.state, { atMs: this.state.nowMs, ...event } as ControllerEvent);
    this.state = state;
    this.said = effects;
    return this;
  }

  report(from: string, type: string, body: object, role = "node"): this {
    const incarnation = this.state.members[from]?.incarnation ?? `${from}-i`;
    return this.hear({ type, from, role, incarnation, body });
  }

  operate(type: string, body: object): this {
    return this.hear({ type, from: "ops", role: "operator", incarnation: "ops-i", body });
  }

  join(id: string, role: Member["role"], patch: Joining = {}): this {
    const { host = "h", life = 0, ...more } = patch;
    const body = {
      role,
      host,
      pid: ++this.#pids,
      ...(role === "node" ? {} : { life }),
      engineBuild: role === "node" ? "" : "b",
      ...more,
    };
    return this.hear({ type: "replica.register", from: id, role, incarnation: `${id}-i${life}-${this.#pids}`, body });
  }

  node(
    id: string,
    limits: Partial<Record<ReplicaRole, number>> = {},
    host = "h",
    devices: readonly string[] = [],
  ): this {
    return this.join(id, "node", { host, ...(devices.length > 0 ? { devices } : {}) }).report(id, "node.ready", {
      capacity: { ...capacity, ...limits },
      ...(this.capabilities ? { capabilities: this.capabilities } : {}),
      ...(this.hasNetwork ? { address: `address-of-${host}` } : {}),
    });
  }

  /** Has the processes of a node started and registered as it was told. */
  obey(node: string): this {
    for (const { id, role, life } of this.assigned(node)) {
      if (this.state.fleet.replicas[id]?.process) continue;
      this.report(node, "process.started", { id, host: "h", pid: this.#pids + 1, life });
      this.join(id, role, { life });
    }
    return this;
  }

  exit(node: string, id: string, how: { readonly code?: number } = {}): this {
    const running = this.state.fleet.replicas[id]?.process;
    const { code = null } = how;
    const body = { id, host: "h", pid: running?.pid ?? 0, code, signal: code === null ? "SIGKILL" : null };
    return this.report(node, "process.exited", { ...body, life: running?.life ?? 0 });
  }

  /** What a node was told last. */
  assigned(node: string): Body<"node.assign">["replicas"] {
    return this.#told(node).replicas;
  }

  /** What a node was told last of ranks of replicas of several processes. */
  ranks(node: string): readonly RankOrder[] {
    return this.#told(node).ranks;
  }

  #told(node: string) {
    const told = JSON.parse(this.state.fleet.nodes[node]?.assigned || "[]");
    return Array.isArray(told) ? { replicas: told, ranks: [] } : told;
  }

  /** Has the ranks that are due started by these nodes, rank 0 first, and rank 0 registered. */
  obeyRanks(...nodes: readonly string[]): this {
    for (const node of nodes)
      this.report(node, "node.assigned", { revision: this.state.fleet.nodes[node]?.revision ?? 0 });
    for (const isFirst of [true, false])
      for (const node of nodes)
        for (const { id, rank, life, isDue, role } of this.ranks(node)) {
          const known = this.processOf(id, rank);
          if ((rank === 0) !== isFirst || !isDue || known?.life === life) continue;
          const { host = "h" } = this.state.members[node] ?? {};
          const pid = rank === 0 ? this.#pids + 1 : 1_000 + ++this.#others;
          this.report(node, "process.started", {
            id,
            host,
            pid,
            life,
            rank,
            ...(rank === 0 ? { port: 29_500 + life } : {}),
          });
          if (rank === 0) this.join(id, role, { host, life, node });
        }
    return this;
  }

  /** The process of a rank that the controller knows of. */
  processOf(id: string, rank: number) {
    const replica = this.state.fleet.replicas[id];
    return rank === 0 ? replica?.process : replica?.group?.ranks[rank - 1]?.process;
  }

  /** A rank ends. */
  exitRank(
    node: string,
    id: string,
    rank: number,
    how: { readonly code?: number; readonly words?: string; readonly signal?: string } = {},
  ): this {
    const { pid = 0, life = 0 } = this.processOf(id, rank) ?? {};
    const { code = null, signal = "SIGKILL", ...words } = how;
    const host = this.state.members[node]?.host ?? "h";
    const body = { id, host, pid, life, rank, code, signal: code === null ? signal : null, ...words };
    return this.report(node, "process.exited", body);
  }

  ids(node: string): readonly string[] {
    return this.assigned(node).map(({ id }) => id);
  }

  health(id: string): string | undefined {
    return this.state.fleet.replicas[id]?.health;
  }
}
