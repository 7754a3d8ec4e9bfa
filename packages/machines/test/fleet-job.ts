/** A controller and its fleet, for tests: it is told what nodes and replicas do. */
import type { ControllerEvent, ControllerPlan, ControllerState, Member } from "@muster/machines";
import { control } from "@muster/machines";
import type { Body, ReplicaRole } from "@muster/protocol";
import { initialControllerState } from "../src/controller/state.ts";
import { planWith } from "./states.ts";

const capacity = { policy: null, rollout: null, checkpoint: null };

interface Joining {
  readonly host?: string;
  readonly life?: number;
  readonly devices?: readonly string[];
}

/** A controller that is told what nodes and replicas do, and what it says of it. */
export class Job {
  state: ControllerState;
  said: ReturnType<typeof control>["effects"] = [];
  #pids = 100;

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
    const body = { role, host, pid: ++this.#pids, engineBuild: role === "node" ? "" : "b", ...more };
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
    return JSON.parse(this.state.fleet.nodes[node]?.assigned || "[]");
  }

  ids(node: string): readonly string[] {
    return this.assigned(node).map(({ id }) => id);
  }

  health(id: string): string | undefined {
    return this.state.fleet.replicas[id]?.health;
  }
}
