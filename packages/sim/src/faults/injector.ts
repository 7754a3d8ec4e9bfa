/** Makes the timed faults of a scenario happen, and at the end of the safety phase undoes them all. */
import type { Random } from "@muster/base";
import { newestCheckpointName } from "@muster/checkpoint";
import type { StreamName } from "@muster/transport";
import type { Scenario } from "../cluster/scenario.ts";
import type { AilingHosts } from "../fleet/ailing-hosts.ts";
import type { Command } from "../fleet/command.ts";
import type { AnyNetwork } from "../net/network.ts";
import type { SimDisk } from "../plane/sim-disk.ts";
import type { PlaneFaults } from "../plane/version-plane.ts";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";
import type { Failpoints } from "./failpoints.ts";
import { type Fault, nameOf } from "./fault.ts";
import { Forger } from "./forger.ts";
import { Liar } from "./liar.ts";
import { Thief } from "./thief.ts";

/** What faults are done to. */
export interface Victims {
  readonly world: World;
  readonly network: AnyNetwork;
  readonly disk: SimDisk;
  readonly failpoints: Failpoints;
  readonly isJobOver: boolean;
  living(): readonly SimProcess[];
  processOf(node: string): SimProcess | null;
  kill(process: SimProcess, isSeen: boolean): void;
  /** Places that nobody starts again. */
  readonly gone: Set<string>;
  freeze(process: SimProcess, how: "pause" | "hang" | "suspend", forMs: number): void;
  drain(process: SimProcess): void;
  killHost(node: string): void;
  readonly ailing: AilingHosts;
  give(command: Command, id: string): void;
  startController(): void;
  reviveAll(): void;
}

/** Who is told of each fault. */
export interface FaultObserver {
  injected(name: string, process: SimProcess | null): void;
  /** Somebody lied in the name of a replica, maybe as a life that no process has. */
  lied(id: string, what: string, incarnation?: string): void;
  /** The broker lost so many messages at the end of a stream. */
  lost(stream: StreamName | "state", messages: number): void;
  /** What lies in this folder is damaged from now on. */
  damaged(path: string): void;
}

type TimedFault = Exclude<Fault, { kind: "failpoint" | "noise" }>;
type NodeFault = Extract<TimedFault, { node: string }>;
type WideFault = Exclude<TimedFault, { node: string }>;

/** The faults of one run. */
export class Injector implements PlaneFaults {
  readonly #victims: Victims;
  readonly #observer: FaultObserver;
  readonly #random: Random;
  readonly #forger: Forger;
  readonly #liar: Liar;
  readonly #thief: Thief;
  readonly #cuts = new Set<string>();
  readonly #flipping = new Set<string>();
  #corruption = 0;
  /** Names of checkpoints that are damaged. */
  readonly #rotten = new Set<string>();
  #checkpoints = "";
  #isCalm = false;

  constructor(victims: Victims, observer: FaultObserver) {
    this.#victims = victims;
    this.#observer = observer;
    this.#random = victims.world.random(9);
    this.#forger = new Forger(victims.network, victims.world.random(10));
    this.#liar = new Liar(victims.network, victims.world.random(14));
    this.#thief = new Thief(victims.network, victims.world.random(15));
  }

  /** Arms every fault, and the calm after them. */
  start({ faults, safetyMs, config }: Scenario): void {
    this.#checkpoints = config.checkpoint.directory;
    const { world, network } = this.#victims;
    for (const fault of faults) {
      if (fault.kind === "failpoint") continue;
      if (fault.kind === "noise") network.noise = fault.noise;
      else world.after(fault.atMs, () => this.#isCalm || this.#victims.isJobOver || this.#inject(fault));
    }
    world.after(safetyMs, () => this.#calm());
  }

  isCut(a: SimProcess, b: SimProcess): boolean {
    return this.#cuts.has(pairOf(a.node, b.node));
  }

  corrupts(): boolean {
    return this.#corruption > 0 && this.#random.next() < this.#corruption;
  }

  /** True while this process computes wrong bits. */
  flips(process: SimProcess): boolean {
    return this.#flipping.has(process.node);
  }

  #inject(fault: TimedFault): void {
    if (!("node" in fault)) {
      this.#observer.injected(nameOf(fault), null);
      this.#strikeWide(fault);
      return;
    }
    if (fault.kind === "gone") this.#victims.gone.add(fault.node);
    const process = this.#victims.processOf(fault.node);
    if (!process || process.isDead) return;
    this.#observer.injected(nameOf(fault), process);
    this.#strike(fault, process);
  }

  #strike(fault: NodeFault, process: SimProcess): void {
    const { world, network } = this.#victims;
    switch (fault.kind) {
      case "kill":
        this.#victims.kill(process, fault.isSeen);
        return;
      case "gone":
        this.#victims.kill(process, false);
        return;
      case "pause":
      case "hang":
        this.#victims.freeze(process, fault.kind, fault.forMs);
        return;
      case "stick":
        process.stick();
        return;
      case "suspend":
        this.#victims.freeze(process, "suspend", fault.forMs);
        return;
      case "slow":
        process.slowdown = fault.factor;
        world.after(fault.forMs, () => {
          process.slowdown = 1;
        });
        return;
      case "clock-jump":
        process.wallOffsetMs += fault.byMs;
        return;
      case "drain":
        this.#victims.drain(process);
        return;
      case "kill-host":
        this.#victims.killHost(fault.node);
        return;
      case "ailing-host":
        this.#victims.ailing.ail(fault.node, fault.forMs);
        return;
      case "disconnect":
        network.disconnect([process]);
        world.after(fault.forMs, () => network.heal([process]));
        return;
      case "partition":
        network.partition([process], fault.way);
        world.after(fault.forMs, () => network.heal([process]));
        return;
      case "bit-flip":
        this.#flipping.add(fault.node);
        world.after(fault.forMs, () => this.#flipping.delete(fault.node));
    }
  }

  #strikeWide(fault: WideFault): void {
    const { world, network, disk } = this.#victims;
    switch (fault.kind) {
      case "kill-all":
        this.#killRole(fault.role, fault.isSeen);
        return;
      case "data-cut": {
        const pair = pairOf(...fault.between);
        this.#cuts.add(pair);
        world.after(fault.forMs, () => this.#cuts.delete(pair));
        return;
      }
      case "corruption":
        this.#corruption = fault.rate;
        world.after(fault.forMs, () => {
          this.#corruption = 0;
        });
        return;
      case "broker-restart":
        network.stopBroker();
        world.after(fault.forMs, () => network.startBroker());
        return;
      case "suffix-loss":
        network.stopBroker();
        this.#observer.lost(fault.stream, network.lose(fault.stream, fault.lostMs));
        world.after(fault.forMs, () => network.startBroker());
        return;
      case "consumer-expiry":
        network.expireConsumers();
        return;
      case "broker-stall":
        network.stall();
        world.after(fault.forMs, () => network.unstall());
        return;
      case "forgery":
        this.#forger.forge(fault.count);
        return;
      case "lie": {
        const lie = this.#liar.lie(fault.about);
        if (lie) this.#observer.lied(lie.from, `${lie.kind} with another ${lie.field}`);
        return;
      }
      case "theft":
        for (let i = 0; i < fault.count; i++) this.#steal(fault.role);
        return;
      case "spoil":
        network.tampering.spoils += fault.count;
        return;
      case "misreport":
        network.tampering.lies += fault.count;
        return;
      case "command":
        for (const afterMs of [0, ...fault.againMs])
          world.after(afterMs, () => this.#victims.give(fault.command, fault.id));
        return;
      case "second-controller":
        this.#victims.startController();
        return;
      case "power-loss":
        this.#killRole("checkpoint", true);
        disk.losePower(this.#random);
        return;
      case "rot":
        void this.#rot(fault.isFatal);
    }
  }

  /** Spares the only checkpoint: with nothing to go back to there is nothing to see. */
  async #rot(isFatal: boolean): Promise<void> {
    const { disk } = this.#victims;
    const names = await disk.fs.list(this.#checkpoints).catch(() => []);
    const sound = names.filter((name) => !name.startsWith(".") && name !== "latest" && !this.#rotten.has(name));
    const newest = await newestCheckpointName(this.#checkpoints, { list: async () => sound });
    if (newest === null || sound.length < 2) return;
    const path = `${this.#checkpoints}/${newest}`;
    this.#rotten.add(newest);
    this.#observer.damaged(path);
    const files = (await disk.fs.list(path)).filter((file) => /^model(-.*)?\.safetensors$/.test(file)).sort();
    // One shard of several is enough to spoil them all.
    const file = files[files.length > 1 ? this.#random.below(files.length) : 0];
    if (file !== undefined) disk.flipBit(`${path}/${file}`, this.#random);
    if (isFatal) this.#killRole("policy", true);
  }

  #steal(role: Extract<WideFault, { kind: "theft" }>["role"]): void {
    const said = this.#thief.say(role);
    if (said) this.#observer.lied(said.from, `${said.kind} as ${said.as}, with stolen credentials`, said.incarnation);
  }

  #killRole(role: string, isSeen: boolean): void {
    for (const process of this.#victims.living()) if (process.role === role) this.#victims.kill(process, isSeen);
  }

  /** The faults are over: everything heals, and whoever is gone comes back. */
  #calm(): void {
    const { network, failpoints } = this.#victims;
    this.#isCalm = true;
    failpoints.disarm();
    network.noise = { ...network.noise, coreLoss: 0, answerLoss: 0, duplicates: 0, reorder: false };
    this.#cuts.clear();
    this.#flipping.clear();
    this.#corruption = 0;
    network.tampering.spoils = 0;
    network.tampering.lies = 0;
    for (const process of this.#victims.living()) {
      process.thaw();
      process.slowdown = 1;
    }
    network.unstall();
    network.startBroker();
    network.heal(this.#victims.living());
    this.#victims.reviveAll();
  }
}

function pairOf(a: string, b: string): string {
  return a < b ? `${a}|${b}` : `${b}|${a}`;
}
