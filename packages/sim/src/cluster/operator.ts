/** The supervisor's voice: tells the controller which processes ended, through production's outbox. */
import { noMetrics, silentLogger } from "@muster/base";
import { subjectsOf } from "@muster/protocol";
import { createEnveloper, createOutbox, type Enveloper, type Outbox } from "@muster/runtime";
import type { Network } from "../net/network.ts";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";
import { hostOf } from "./environment.ts";

/** The operator of one job. */
export class Operator {
  readonly #job: string;
  readonly #enveloper: Enveloper;
  #outbox: Outbox | null = null;

  constructor(world: World, network: Network, process: SimProcess, job: string) {
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
  reportExit(id: string, pid: number): void {
    const body = { id, host: hostOf(pid), pid, code: null, signal: "SIGKILL" };
    const subject = subjectsOf(this.#job).report("operator", "operator", "process.exited");
    this.#outbox?.offer({ subject, message: this.#enveloper.stamp("process.exited", body) });
  }
}
