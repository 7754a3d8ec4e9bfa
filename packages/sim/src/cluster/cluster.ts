/** A whole job in one thread: processes under a supervisor, on the simulated network, data plane and disk. */
import { checkpointRoleOn, policyRoleOn, type Replica, type Role, rolloutRoleOn, runReplica } from "@muster/actors";
import { startController } from "@muster/actors/controller";
import { type KeeperGiven, nodeRoleOn, type StartOrder } from "@muster/actors/internal";
import { type Random, randomOf } from "@muster/base";
import { type MemberRole, perRole, type ReplicaRole, replicaRoles } from "@muster/protocol";
import { simRules } from "../engine/info.ts";
import { type Arm, Failpoints } from "../faults/failpoints.ts";
import { Injector } from "../faults/injector.ts";
import { AilingHosts } from "../fleet/ailing-hosts.ts";
import type { Command } from "../fleet/command.ts";
import { type Child, SimKeeper } from "../fleet/sim-keeper.ts";
import { type AnyNetwork, Network } from "../net/network.ts";
import type { NetworkOptions } from "../net/wire.ts";
import { planeDigest } from "../plane/digest.ts";
import { MeshPlane } from "../plane/mesh-plane.ts";
import { SimDisk } from "../plane/sim-disk.ts";
import { VersionPlane } from "../plane/version-plane.ts";
import { trainerSizeOf } from "../ranks/cut.ts";
import { type ProcessOptions, SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";
import type { Bug } from "./bug.ts";
import type { ClusterGiven, ClusterObserver } from "./cluster-given.ts";
import { createEnvironment, epochMs } from "./environment.ts";
import { isLast } from "./last-controller.ts";
import { Operator } from "./operator.ts";
import { type Behind, portsOf } from "./ports.ts";
import { ReplicaRanks } from "./replica-ranks.ts";
import { diskHostOf, graceMsOf, pieceMaxOf, recordMaxOf, type Scenario } from "./scenario.ts";
import { StuckProcesses } from "./stuck.ts";

/** One place for a process. */
interface Node {
  readonly id: string;
  readonly role: MemberRole;
  process: SimProcess | null;
  replica: Replica | null;
}

const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);

/** The processes of one run. */
export class Cluster {
  readonly world: World;
  readonly scenario: Scenario;
  readonly network: AnyNetwork;
  readonly disk: SimDisk;
  readonly ailing: AilingHosts;
  readonly failpoints: Failpoints;
  /** Places whose hosts are lost for good: nobody starts what ran there again. */
  readonly gone = new Set<string>();
  /** True once a controller has ended the job and itself. */
  isJobOver = false;
  readonly #observer: ClusterObserver;
  readonly #bug: Bug;
  readonly #behind: Behind;
  readonly #injector: Injector;
  readonly #random: Random;
  readonly #operator: Operator;
  readonly #nodes = new Map<string, Node>();
  /** Replicas that nodes started; of each id the last process. */
  readonly #children = new Map<string, Child>();
  readonly #livingChildren = new Set<SimProcess>();
  /** What is written down on each host about the processes of its nodes. */
  readonly #notes = new Map<string, Map<string, Child>>();
  readonly #controllers = new Set<SimProcess>();
  readonly #unseen = new Set<SimProcess>();
  readonly #stuck: StuckProcesses;
  readonly #ranks: ReplicaRanks;
  /** Controllers that are started again when they are gone. */
  #controllersWanted: number;
  #lives = 0;
  #incarnations = 0;

  constructor(world: World, scenario: Scenario, given: ClusterGiven) {
    this.world = world;
    this.ailing = new AilingHosts(world);
    this.scenario = scenario;
    this.#observer = given.observer;
    this.#bug = given.bug ?? {};
    this.#controllersWanted = scenario.controllers ?? 1;
    this.#random = world.random(2);
    const end = (process: SimProcess): void => this.kill(process, true);
    const isJobOver = (): boolean => this.isJobOver;
    this.#stuck = new StuckProcesses({ world, end, isJobOver, jobState: () => this.#observer.jobState });
    const spawn = (id: string, { role, host }: SimProcess): SimProcess => this.#spawn(id, role, { host });
    const together = (processes: readonly SimProcess[]): void => this.#observer.together(processes);
    this.#ranks = new ReplicaRanks({ world, size: trainerSizeOf(scenario.config), spawn, end, together });
    const arms = scenario.faults.flatMap((fault) => (fault.kind === "failpoint" ? [fault] : []));
    this.failpoints = new Failpoints(arms, (arm, process) => this.#strike(arm, process));
    const { makeNetwork = (options: NetworkOptions): AnyNetwork => new Network(options) } = given;
    this.network = makeNetwork({
      world,
      job: scenario.config.job,
      failpoints: this.failpoints,
      observer: this.#observer,
      ...{ bug: this.#bug.wire, bytesMax: scenario.bytesMax, messageMax: { journal: recordMaxOf(scenario) } },
    });
    this.disk = new SimDisk(this.failpoints, this.#bug.disk, () => epochMs + world.nowMs);
    this.#injector = new Injector(this, this.#observer);
    const faults = this.#injector;
    const { digest = planeDigest } = this.#bug;
    this.#behind = {
      work: scenario.work,
      failpoints: this.failpoints,
      digest,
      versions: new VersionPlane(this.failpoints, { faults, digest, ...this.#bug.plane }),
      meshes: new MeshPlane(this.failpoints, { faults, observer: this.#observer, bug: this.#bug.mesh }),
      disk: this.disk,
      pieceMax: pieceMaxOf(scenario),
      graceMs: this.#bug.sweeps === false ? Number.POSITIVE_INFINITY : graceMsOf(scenario),
      observer: {
        ...this.#observer.engines,
        // Whose receipts were stuck when it ended had no way to say what it had come to: nobody can count that against the right prompt.
        killedBy: (request, version, process) =>
          this.network.isServed(process) && this.#observer.engines.killedBy(request, version, process),
        hungBy: (request, process) => {
          this.#observer.engines.hungBy(request, process);
          process.stick();
          // A node ends its own.
          if (!scenario.fleet) this.#stuck.endWhenOut(process);
        },
      },
      // A replica that trains alone has nobody to be compared with.
      corrupts: (process) => this.#injector.flips(process) && this.#behind.meshes.sizeOf(process) > 1,
      othersOf: (process) => this.#ranks.othersOf(process),
      portsOf: (process) => {
        const ports = portsOf(process, this.#behind);
        return this.#bug.ports?.(ports, process, this.disk) ?? ports;
      },
      trainingOf: this.#bug.training ?? ((training) => training),
      dataKey,
    };
    this.#operator = new Operator(world, this.network, this.#spawn("operator", "operator"), scenario.config.job);
  }

  /** Starts everybody and arms the faults. */
  start(): void {
    const { scenario } = this;
    const { config } = scenario;
    for (let i = 0; i < this.#controllersWanted; i++) this.world.after(i * 700, () => this.startController());
    const places = scenario.fleet
      ? scenario.fleet.nodes.map((_, i) => ({ id: `node-${i + 1}`, role: "node" as const }))
      : replicaRoles.flatMap((role) =>
          Array.from({ length: config.replicas[role] }, (_, i) => ({ id: `${role}-${i + 1}`, role })),
        );
    for (const place of places) {
      this.#nodes.set(place.id, { ...place, process: null, replica: null });
      this.world.after(10 + this.#random.next() * 2_000, () => this.startNode(place.id));
    }
    if (scenario.faults.length > 0 || this.#controllersWanted > 1) this.#injector.start(scenario);
  }

  /** Starts a controller, whether or not another one lives. */
  startController(): void {
    if (this.isJobOver) return;
    const process = this.#spawn("controller", "controller");
    this.#controllers.add(process);
    process.onDeath(() => this.#controllerGone(process));
    const { config } = this.scenario;
    const { logic, recordBytes = this.scenario.recordBytes } = this.#bug;
    const given = { config, rules: simRules, recordBytes, dataKey, environment: this.#environment(process) };
    const starting = startController({ ...given, ...(logic ? { logic } : {}) });
    starting.then(
      (controller) => {
        this.#observer.termBegan(process, controller);
        void controller.ended.then(({ outcome, reason }) => {
          if (process.isDead) return;
          if (isLast({ outcome, reason }, this.#observer.end)) this.#over();
          this.#exit(process, `${outcome}: ${reason}`);
        });
      },
      (error: unknown) => this.#exit(process, `did not start: ${String(error)}`),
    );
  }

  /** Starts a life of a node, unless one runs. */
  startNode(id: string): void {
    const node = this.#nodes.get(id);
    if (!node || this.isJobOver || this.gone.has(id) || (node.process && !node.process.isDead)) return;
    const process = this.#spawn(node.id, node.role, { host: this.#shapeOf(id)?.host ?? diskHostOf(this.scenario, id) });
    node.process = process;
    process.onDeath(() => this.#replicaGone(node, process));
    this.#ranks.start(process);
    const role = node.role === "node" ? this.#nodeRole(process) : this.#roleOf(node.role, process);
    // A replica of several processes ends with its life, as a node has it: the others are of the same one.
    const life = this.#ranks.othersOf(process).length > 0 ? 1 : undefined;
    node.replica = this.#run(process, role, undefined, life);
  }

  /** Runs a role in a process until one of them ends. */
  #run(process: SimProcess, role: Role, onEnd: (outcome: string) => void = () => {}, life?: number): Replica {
    const { job } = this.scenario.config;
    const environment = { ...this.#environment(process), ...(life === undefined ? {} : { life }) };
    const given = { job, id: process.node, environment };
    const replica = runReplica(this.#bug.role?.(role, process) ?? role, given);
    const end = (outcome: string, how: string): void => {
      onEnd(outcome);
      this.#exit(process, `${outcome}: ${how}`);
    };
    replica.ended.then(
      ({ outcome, reason }) => end(outcome, reason),
      (error: unknown) => end("failed", String(error)),
    );
    return replica;
  }

  #roleOf(role: ReplicaRole, process: SimProcess): Role {
    return roleOn[role](this.#behind.portsOf(process));
  }

  #shapeOf(id: string) {
    return this.scenario.fleet?.nodes[Number(id.slice("node-".length)) - 1];
  }

  #nodeRole(process: SimProcess): Role {
    const { host, node } = process;
    const notes = this.#notes.get(host) ?? new Map<string, Child>();
    this.#notes.set(host, notes);
    const { capacity = perRole(() => null), devices = [] } = this.#shapeOf(node) ?? {};
    const options = { process, notes, failpoints: this.failpoints, bug: this.#bug.keeper ?? {} };
    const spawn = (order: StartOrder): Child => this.#startChild(order, process);
    const keeper = (given: KeeperGiven) => {
      const made = new SimKeeper(given, { ...options, spawn });
      process.onEnd(() => made.killNow());
      return made;
    };
    return nodeRoleOn({
      ...{ host, capacity, devices, graceMs: 5_000, keeper, signs: () => this.ailing.signsOf(node) },
      admitted: ({ config: { data } }) => (data.tcpHost?.includes("/") ? host : null),
    });
  }

  /** A node starts the process of a replica; it takes a moment until that one speaks. */
  #startChild({ id, role, devices, life, rank }: StartOrder, parent: SimProcess): Child {
    const { host, node } = parent;
    const process = this.#spawn(id, role, { host, parent: node });
    this.#observer.bore(parent, process, devices ?? [], rank ? { replica: rank.id, life } : null);
    let replica: Replica | null = null;
    const isHelper = rank !== undefined && rank.rank > 0;
    const child: Child = {
      id,
      node,
      process,
      devices: devices ?? [],
      code: null,
      // Ranks from 1 on do what rank 0 asks, and speak to nobody else: there is nothing of it here but that they are there.
      stop: (reason) => (isHelper ? this.#exit(process, reason) : replica?.stop(reason)),
    };
    this.#children.set(id, child);
    this.#livingChildren.add(process);
    process.onDeath(() => this.#livingChildren.delete(process));
    if (isHelper) return child;
    process.after(200 + this.#random.next() * 800, () => {
      const end = (outcome: string): void => {
        child.code = outcome === "left" ? 0 : 1;
      };
      replica = this.#run(process, this.#roleOf(role, process), end, rank ? life : undefined);
    });
    return child;
  }

  /** Processes that run or stand still. */
  living(): readonly SimProcess[] {
    const replicas = [...this.#nodes.values()].flatMap(({ process }) => process ?? []);
    const all = [...this.#controllers, ...replicas, ...this.#livingChildren, ...this.#ranks.living()];
    return all.filter((process) => !process.isDead);
  }

  /** True when the job has ended and nobody is left. */
  get isOver(): boolean {
    return this.isJobOver && this.living().length === 0;
  }

  #spawn(node: string, role: string, where: Pick<ProcessOptions, "host" | "parent"> = {}): SimProcess {
    const life = ++this.#lives;
    const random = randomOf(this.world.seed, life, 4);
    const process = new SimProcess(this.world, {
      name: `${node}#${life}`,
      node,
      role,
      pid: 1_000 + life,
      ...where,
      clockOffsetMs: random.below(10_000_000),
      clockRate: 0.99 + 0.02 * random.next(),
    });
    this.#observer.started(process);
    return process;
  }

  #environment(process: SimProcess) {
    return createEnvironment({
      world: this.world,
      network: this.network,
      process,
      heartbeatIntervalMs: this.scenario.config.timing.heartbeatIntervalMs,
      newIncarnation: () => `i${++this.#incarnations}`,
      onIdentity: (identity) => {
        this.#stuck.identified(process, identity.incarnation);
        this.#observer.identified(identity, process);
      },
    });
  }

  /** A process has come to its own end. */
  #exit(process: SimProcess, how: string): void {
    if (process.isDead) return;
    this.#observer.ended(process, how);
    process.end();
  }

  /** The job is over: who was not released is asked to leave, as by SIGTERM. */
  #over(): void {
    this.isJobOver = true;
    this.world.after(1_000, () => {
      for (const { replica, process } of this.#nodes.values()) process?.enter(() => replica?.stop("the job is over"));
      for (const { process, stop } of this.#children.values()) process.enter(() => stop("the job is over"));
    });
  }

  #controllerGone(process: SimProcess): void {
    this.#controllers.delete(process);
    // A rival comes back later than the only one would: its supervisor has seen it fail again and again.
    const delayMs = this.#controllers.size === 0 ? 500 : 3_000;
    this.world.after(delayMs * (1 + 3 * this.#random.next()), () => {
      if (this.#controllers.size < this.#controllersWanted) this.startController();
    });
  }

  #replicaGone(node: Node, process: SimProcess): void {
    node.replica = null;
    this.world.after(500 + this.#random.next() * 2_500, () => this.startNode(node.id));
    if (this.#unseen.delete(process)) return;
    this.world.after(5 + this.#random.next() * 20, () => this.#operator.reportExit(node.id, process));
  }

  /** Ends a process as SIGKILL does. `isSeen`: the supervisor tells the controller. */
  kill(process: SimProcess, isSeen: boolean): void {
    if (!isSeen) this.#unseen.add(process);
    process.kill();
  }

  /** The process of a node; of the controllers the youngest. */
  processOf(id: string): SimProcess | null {
    const placed = this.#children.get(id) ?? this.#nodes.get(id);
    if (id !== "controller") return placed?.process ?? this.#ranks.processOf(id);
    return [...this.#controllers].at(-1) ?? null;
  }

  /** Stops a process for a time as SIGSTOP does, or with its host, or only its main thread. */
  freeze(process: SimProcess, how: "pause" | "hang" | "suspend", forMs: number): void {
    if (how === "suspend") process.suspend();
    else process.freeze(how === "pause" ? "paused" : "hung");
    this.world.after(forMs, () => process.thaw());
    if (how === "hang") return;
    // The broker takes a client that does not answer its pings for gone.
    this.world.after(5_000, () => process.state === "paused" && this.network.disconnect([process]));
    this.world.after(forMs + 20, () => this.network.heal([process]));
  }

  /** Asks a replica to leave, as SIGTERM does; it is started again afterwards. */
  drain(process: SimProcess): void {
    const stop = this.#children.get(process.node)?.stop;
    process.enter(() => (stop ?? ((reason) => this.#nodes.get(process.node)?.replica?.stop(reason)))("maintenance"));
  }

  /** The host of a node is gone at once, with everything on it; nobody is left there to say so. */
  killHost(id: string): void {
    const host = this.#shapeOf(id)?.host;
    for (const process of this.living()) if (process.host === host) this.kill(process, false);
  }

  /** The operator gives a command. */
  give(command: Command, id: string): void {
    this.#operator.give(command, id);
  }

  /** The faults are over: one controller is enough from now on, and whoever is gone is started. */
  reviveAll(): void {
    this.#controllersWanted = 1;
    for (const id of this.#nodes.keys()) this.startNode(id);
    if (this.#controllers.size === 0) this.startController();
    const state = () => (this.isJobOver ? null : this.#observer.jobState);
    if (this.scenario.fleet) this.#operator.repairSoon(state, this.scenario.config.replicas);
  }

  #strike(arm: Arm, process: SimProcess): void {
    this.#observer.injected(`failpoint-${arm.action.type}`, process);
    const { action } = arm;
    if (action.type === "crash") this.kill(process, arm.nth % 2 === 0);
    if (action.type === "pause" || action.type === "hang") this.freeze(process, action.type, action.forMs);
  }
}

const roleOn = { policy: policyRoleOn, rollout: rolloutRoleOn, checkpoint: checkpointRoleOn } as const;
