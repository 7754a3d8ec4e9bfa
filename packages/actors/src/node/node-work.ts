/** The hands of a node: processes of replicas, started and ended as its machine says. */
import { type NodeEffect, type NodeEvent, nodeLogic, type TimerEffect } from "@muster/machines";
import type { Body, ReplicaRole } from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import { defineRole, type Role, type RoleHandlers, type Work, type WorkTools } from "../replica/work.ts";
import { Keeper } from "./keeper.ts";

type Effect = NodeEffect | TimerEffect<NodeEvent>;

/** What a node is made from. */
export interface NodeRoleOptions {
  readonly host: string;
  readonly capacity: Body<"node.ready">["capacity"];
  /** Folder of the job's run on this host. */
  readonly directory: string;
  /** Program and arguments that run a replica. */
  readonly commandOf: (role: ReplicaRole, id: string) => readonly string[];
  /** How long a process that was asked to leave may take. */
  readonly graceMs: number;
  /** Hears of the keeper of each life, so that nothing is left when the process ends in haste. */
  readonly onKeeper: (keeper: Pick<Keeper, "killNow">) => void;
}

/** The role of a node. */
export function nodeRole(options: NodeRoleOptions): Role {
  const { host, capacity, graceMs } = options;
  return defineRole({
    role: "node",
    build: "",
    phases: ["idle"],
    logic: nodeLogic,
    input: { host, capacity, graceMs },
    create: (tools: WorkTools): Work<Effect, NodeEvent> => new NodeWork(tools, options),
  });
}

class NodeWork implements Work<Effect, NodeEvent> {
  readonly #keeper: Keeper;
  #post: (event: NodeEvent) => void = () => {};

  constructor({ identity, environment }: WorkTools, { directory, commandOf, onKeeper }: NodeRoleOptions) {
    const { clock, logger } = environment;
    this.#keeper = new Keeper({
      directory,
      node: identity.id,
      commandOf,
      clock,
      logger,
      onStarted: (started) => {
        logger.info(started, "process started");
        this.#post({ type: "keeper.started", ...started });
      },
      onExit: (exit) => {
        logger.warn(exit, "process ended");
        this.#post({ type: "keeper.exited", atMs: clock.now(), ...exit });
      },
    });
    onKeeper(this.#keeper);
  }

  readonly handlers: RoleHandlers<Effect, NodeEvent> = {
    "keeper.clean": async (_, tools) => {
      this.#hear(tools);
      tools.post({ type: "keeper.cleaned", ended: await this.#keeper.clean() });
    },
    "keeper.start": ({ id, role, life }, tools) => {
      this.#hear(tools);
      return this.#keeper.start(id, role, life);
    },
    "keeper.end": ({ id, how }) => this.#keeper.end(id, how),
    "keeper.signal": ({ body, pid }, tools) => {
      const detail = this.#keeper.signal(body.id, pid, body.signal);
      tools.post({ type: "keeper.signalled", body: { commandId: body.commandId, id: body.id, pid, detail } });
    },
  };

  async open(): Promise<void> {
    // There is nothing to open: the machine has it cleaned up once it is admitted.
  }

  close(): Promise<void> {
    return this.#keeper.close();
  }

  #hear(tools: HostTools<NodeEvent>): void {
    this.#post = (event) => void tools.post(event);
  }
}
