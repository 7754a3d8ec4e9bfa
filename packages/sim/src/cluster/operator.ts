/** The voice of supervisor and operator: which processes ended, and what is asked of the fleet, through production's outbox. */
import { noMetrics, silentLogger } from "@muster/base";
import type { ControllerState } from "@muster/machines/controller";
import {
  type AnyMessage,
  createEnveloper,
  type Enveloper,
  type JobConfig,
  replicaRoles,
  subjectsOf,
} from "@muster/protocol";
import { createOutbox, type Outbox } from "@muster/runtime";
import type { Command } from "../fleet/command.ts";
import type { AnyNetwork } from "../net/network.ts";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";

/** When it looks at the fleet again, once the faults are over. */
const repairsMs = [0, 10_000, 20_000, 30_000, 40_000];

/** The operator of one job. */
export class Operator {
  readonly #world: World;
  readonly #job: string;
  readonly #enveloper: Enveloper;
  #outbox: Outbox | null = null;

  constructor(world: World, network: AnyNetwork, process: SimProcess, job: string) {
    this.#world = world;
    this.#job = job;
    const identity = { job, id: "operator", role: "operator", incarnation: "operator" } as const;
    this.#enveloper = createEnveloper({ ...identity, wallMs: () => Math.floor(world.nowMs) });
    void network.connect(process).then((transport) => {
      this.#outbox = createOutbox({
        transport,
        clock: process.clock,
        random: world.random(6),
        logger: silentLogger,
        metrics: noMetrics,
        outboxMax: 10_000,
        onFailed: () => {},
      });
    });
  }

  /** Says that a process has ended. */
  reportExit(id: string, { host, pid, signal }: SimProcess): void {
    const body = { id, host, pid, code: null, signal };
    const subject = subjectsOf(this.#job).report("operator", "operator", "process.exited");
    this.#outbox?.offer({ subject, message: this.#enveloper.stamp("process.exited", body) });
  }

  /** Gives a command; the same id again is the same command. */
  give({ kind, body }: Command, commandId: string): void {
    const subject = subjectsOf(this.#job).report("operator", "operator", kind);
    const message = this.#enveloper.stamp(kind, { ...body, commandId } as never) as AnyMessage;
    this.#outbox?.offer({ subject, message });
  }

  /** Sets right what it sees, again and again: counts as the job began, nothing cordoned, nothing given up. */
  repairSoon(stateNow: () => ControllerState | null, replicas: JobConfig["replicas"]): void {
    for (const afterMs of repairsMs)
      this.#world.after(afterMs, () => {
        const state = stateNow();
        if (state && !state.ending) this.#repair(state.fleet, replicas, `repair-${afterMs}`);
      });
  }

  #repair(fleet: ControllerState["fleet"], replicas: JobConfig["replicas"], name: string): void {
    const isOff = replicaRoles.some((role) => fleet.wanted[role] !== replicas[role]);
    if (isOff) this.give({ kind: "fleet.scale", body: replicas }, name);
    for (const id of fleet.cordoned) this.give({ kind: "fleet.uncordon", body: { id } }, `${name}-${id}`);
    for (const [id, { health }] of Object.entries(fleet.replicas))
      if (health === "RETIRED") this.give({ kind: "replica.drain", body: { id } }, `${name}-drain-${id}`);
  }
}
