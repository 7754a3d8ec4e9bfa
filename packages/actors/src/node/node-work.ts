/** The hands of a node: processes of replicas, started and ended as its machine says; and its eyes, for signs of a failure to come. */
import { every } from "@muster/base";
import { type NodeEffect, type NodeEvent, nodeLogic, type TimerEffect } from "@muster/machines";
import type { Body, ReplicaRole } from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import { defineRole, type Role, type RoleHandlers, type Work, type WorkTools } from "../replica/work.ts";
import { type HostSigns, openHostSigns } from "./host-signs.ts";
import { Keeper, type KeeperDoor, type KeeperGiven } from "./keeper.ts";

type Effect = NodeEffect | TimerEffect<NodeEvent>;

/** What every node has. */
interface NodeBasics {
  readonly host: string;
  readonly capacity: Body<"node.ready">["capacity"];
  /** Devices that it gives to its replicas, each to one at a time. */
  readonly devices: readonly string[];
  /** How long a process that was asked to leave may take, in ms. */
  readonly graceMs: number;
}

/** What a node on a real host is made from. */
export interface NodeRoleOptions extends NodeBasics {
  /** Folder of the job's run on this host. */
  readonly directory: string;
  /** Program and arguments that run a replica. */
  readonly commandOf: (role: ReplicaRole, id: string) => readonly string[];
  /** Environment of a replica; the mark of its life is added. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Hears of the keeper of each life, so that nothing is left when the process ends in haste. */
  readonly onKeeper: (keeper: Pick<KeeperDoor, "killNow">) => void;
}

/** What a node is made from whose processes somebody else starts. */
export interface NodeRoleOnOptions extends NodeBasics {
  /** Makes the keeper of one life of the node. */
  readonly keeper: (given: KeeperGiven) => KeeperDoor;
  /** Looks at its host, for one life of the node. */
  readonly signs: () => HostSigns;
}

/** Time between two looks at the host. */
const signsEveryMs = 10_000;

/** The role of a node: its replicas are processes of this host. */
export function nodeRole(options: NodeRoleOptions): Role {
  const { host, capacity, devices, graceMs, directory, commandOf, env, onKeeper } = options;
  return nodeRoleOn({
    ...{ host, capacity, devices, graceMs },
    keeper: (given) => {
      const keeper = new Keeper({ directory, commandOf, env, ...given });
      onKeeper(keeper);
      return keeper;
    },
    signs: () => openHostSigns({ env }),
  });
}

/** The role of a node that starts and ends its replicas through `keeper`. */
export function nodeRoleOn(options: NodeRoleOnOptions): Role {
  const { host, capacity, devices, graceMs } = options;
  return defineRole({
    role: "node",
    build: "",
    devices,
    phases: ["idle"],
    logic: nodeLogic,
    input: { host, capacity, graceMs },
    create: (tools: WorkTools): Work<Effect, NodeEvent> => new NodeWork(tools, options),
  });
}

class NodeWork implements Work<Effect, NodeEvent> {
  readonly #keeper: KeeperDoor;
  readonly #signs: HostSigns;
  readonly #stopLooking: () => void;
  #post: (event: NodeEvent) => void = () => {};

  constructor({ identity, environment }: WorkTools, { keeper, signs }: NodeRoleOnOptions) {
    const { clock, logger } = environment;
    this.#signs = signs();
    this.#stopLooking = every(clock, signsEveryMs, () => void this.#look());
    this.#keeper = keeper({
      node: identity.id,
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
  }

  readonly handlers: RoleHandlers<Effect, NodeEvent> = {
    "keeper.clean": async (_, tools) => {
      this.#hear(tools);
      tools.post({ type: "keeper.cleaned", ended: await this.#keeper.clean() });
    },
    "keeper.start": ({ type: _, ...order }, tools) => {
      this.#hear(tools);
      return this.#keeper.start(order);
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
    this.#stopLooking();
    this.#signs.close();
    return this.#keeper.close();
  }

  async #look(): Promise<void> {
    this.#post({ type: "host.signs", signs: await this.#signs.read() });
  }

  #hear(tools: HostTools<NodeEvent>): void {
    this.#post = (event) => void tools.post(event);
  }
}
