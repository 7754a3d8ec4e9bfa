/** The handlers of a node: they start and end processes of replicas as its machine says, and watch its host for signs of a failure to come. */
import { every, hasCode } from "@muster/base";
import { localAddressOf } from "@muster/collectives";
import { type NodeEffect, type NodeEvent, nodeLogic, type TimerEffect } from "@muster/machines";
import type { Body, ReplicaRole } from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import {
  type Admission,
  defineRole,
  type Role,
  type RoleHandlers,
  type Work,
  type WorkTools,
} from "../replica/work.ts";
import { type HostSigns, openHostSigns } from "./host-signs.ts";
import { Keeper, type KeeperGiven, type KeeperPort } from "./keeper.ts";
import { writeRankConfig } from "./rank-config.ts";

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
  /** Program and arguments that run a process of a replica. */
  readonly commandOf: (role: ReplicaRole, id: string, rank: number) => readonly string[];
  /** Environment of a replica; the mark of its life is added. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Hears of the keeper of each life, so that nothing is left when the process ends in haste. */
  readonly onKeeper: (keeper: Pick<KeeperPort, "killNow">) => void;
}

/** What a node is made from whose processes somebody else starts. */
export interface NodeRoleOnOptions extends NodeBasics {
  /** Makes the keeper of one life of the node. */
  readonly keeper: (given: KeeperGiven) => KeeperPort;
  /** Looks at its host, for one life of the node. */
  readonly signs: () => HostSigns;
  /** Hears of the job before anything is started. @returns Where this host is reached in the network that the job names, or `null`. */
  readonly admitted: (admission: Admission) => string | null;
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
    admitted: (admission) => {
      writeRankConfig(directory, admission);
      return addressIn(admission.config.data.tcpHost);
    },
  });
}

/** This host's address in the network that a job names. One without is reached by nobody, and its node runs what needs nobody else. */
function addressIn(tcpHost: string | null): string | null {
  if (!tcpHost?.includes("/")) return null;
  try {
    return localAddressOf(tcpHost);
  } catch (error) {
    if (hasCode(error, "MUSTER_ERR_NATIVE_OPTION_INVALID")) return null;
    throw error;
  }
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
  readonly #keeper: KeeperPort;
  readonly #signs: HostSigns;
  readonly #stopLooking: () => void;
  readonly #admitted: NodeRoleOnOptions["admitted"];
  #address: string | null = null;
  #post: (event: NodeEvent) => void = () => {};

  constructor({ identity, environment }: WorkTools, { keeper, signs, admitted }: NodeRoleOnOptions) {
    this.#admitted = admitted;
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
      const ended = await this.#keeper.clean();
      tools.post({ type: "keeper.cleaned", ended, ...(this.#address === null ? {} : { address: this.#address }) });
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

  async open(admission: Admission): Promise<void> {
    this.#address = this.#admitted(admission);
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
