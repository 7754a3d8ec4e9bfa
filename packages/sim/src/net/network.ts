/** The broker of the simulation and everybody's connection to it. Bytes are stored by the broker in memory; here is what may go wrong on the way. */
import { mixSeed, type Random } from "@muster/base";
import type { DisconnectNotice, StreamName, Subscription, Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import type { SimProcess } from "../world/process.ts";
import { Link, type Noise, quietNoise } from "./link.ts";
import { SimTransport } from "./sim-transport.ts";
import { Tampering } from "./tampering.ts";
import type { NetworkOptions, Wire } from "./wire.ts";

/** How long a silent connection is taken for a living one: two pings of two seconds (reliability 4.3). */
const noticeMs = 5_000;

/** Two idle heartbeats that do not come tell a reader that its consumer is gone (`transport/src/nats/consume.ts`). */
const noticeLossMs = 10_000;

/** How long after a cut what was held back may still be on its way. */
const settleMs = 10_000;

/** How long one try waits for its answer. */
const answerMs = 1_500;

/** How many stored messages are remembered. */
const recentMax = 32;

/** What the processes and the faults of a run know of their network. */
export type AnyNetwork = Pick<
  Network,
  | "noise"
  | "options"
  | "tampering"
  | "store"
  | "recent"
  | "reports"
  | "connect"
  | "watchDisconnects"
  | "partition"
  | "disconnect"
  | "heal"
  | "isServed"
  | "stopBroker"
  | "startBroker"
  | "lose"
  | "expireConsumers"
  | "stall"
  | "unstall"
>;

/** The broker and the links. */
export class Network implements Wire {
  noise: Noise = quietNoise;
  readonly triesAgainMs = answerMs;
  readonly options: NetworkOptions;
  readonly tampering: Tampering;
  /** The broker's own hand: always connected. */
  readonly store: Transport;
  readonly #broker: MemoryBroker;
  readonly #links = new Map<Link, SimProcess>();
  /** Draws how long each client takes to come back. */
  readonly #reconnects: Random;
  /** Names by which the broker announces the end of a connection. */
  readonly #clients = new WeakMap<Link, string>();
  readonly #watchers = new Map<(notice: DisconnectNotice) => void, SimProcess>();
  /** When the broker, or the connections of a process, were in trouble last. */
  readonly #troubles = new WeakMap<SimProcess, number>();
  #troubleMs = Number.NEGATIVE_INFINITY;
  #connections = 0;
  #isUp = true;
  /** While the broker elects a leader it takes nothing and delivers nothing, and connections stay. */
  #isStalled = false;
  readonly #stalled: (() => void)[] = [];
  readonly #reports = new Map<string, Uint8Array>();
  readonly #recent: { readonly subject: string; readonly data: Uint8Array }[] = [];

  constructor(options: NetworkOptions) {
    const { world, job } = options;
    this.options = options;
    this.#reconnects = world.random(12);
    this.tampering = new Tampering(world.random(13));
    const clock = {
      now: () => world.nowMs,
      after: (delayMs: number, run: () => void) => world.after(delayMs, run),
    };
    const { bytesMax = {}, messageMax = {} } = options;
    this.#broker = createMemoryBroker({ job, clock, bytesMax, messageMax });
    this.store = this.#broker.connect("broker");
  }

  /** Connects a process; the connection ends with it. */
  async connect(process: SimProcess, client = ""): Promise<Transport> {
    const { world } = this.options;
    const name = `${process.name}/${++this.#connections}`;
    const random = world.random(mixSeed(this.#connections, 11));
    const link = new Link(name, world, { random, noise: () => this.noise });
    const inner = this.#broker.connect(name);
    this.#links.set(link, process);
    this.#clients.set(link, client);
    const transport = new SimTransport({ network: this, process, link, inner });
    const end = (): void => {
      this.#announce(link);
      this.#links.delete(link);
      link.forget();
      void inner.close();
    };
    process.onDeath(end);
    if (!this.#isUp) this.#drop(link);
    return transport;
  }

  /** Tells a process of ended connections, as long as it is connected itself. */
  async watchDisconnects(process: SimProcess, handle: (notice: DisconnectNotice) => void): Promise<Subscription> {
    this.#watchers.set(handle, process);
    process.onDeath(() => this.#watchers.delete(handle));
    return { close: async () => void this.#watchers.delete(handle) };
  }

  /** Cuts the connections of processes silently; both ends notice after a while. */
  partition(processes: readonly SimProcess[], way: "both" | "up" | "down"): void {
    for (const link of this.#linksOf(processes)) {
      link.isCutUp ||= way !== "down";
      link.isCutDown ||= way !== "up";
      this.options.world.after(noticeMs, () => {
        if (link.isCutUp || link.isCutDown) this.#drop(link);
      });
    }
  }

  /** Resets the connections of processes; both ends know at once. */
  disconnect(processes: readonly SimProcess[]): void {
    for (const link of this.#linksOf(processes)) this.#drop(link);
  }

  /** Ends the cuts of processes; they come back when the broker is up. */
  heal(processes: readonly SimProcess[]): void {
    for (const link of this.#linksOf(processes)) {
      link.isCutUp = false;
      link.isCutDown = false;
      if (link.isConnected) link.flush();
      else if (this.#isUp) this.#restore(link);
    }
    const { nowMs } = this.options.world;
    for (const process of processes) {
      this.#troubles.set(process, nowMs);
      if (process.role === "controller") this.#troubleMs = nowMs;
    }
  }

  /** True when a process has long been able to say what it has to say, and controllers to hear it in order. */
  isServed(process: SimProcess): boolean {
    const controllers = [...this.#links.values()].filter(({ role }) => role === "controller");
    const isCut = this.#linksOf([process, ...controllers]).some(
      (link) => !link.isConnected || link.isCutUp || link.isCutDown,
    );
    const lastMs = Math.max(this.#troubleMs, this.#troubles.get(process) ?? Number.NEGATIVE_INFINITY);
    return this.#isUp && !this.#isStalled && !isCut && this.options.world.nowMs - lastMs > settleMs;
  }

  /** The broker goes away: every connection is reset, what is stored stays. */
  stopBroker(): void {
    this.#isUp = false;
    for (const link of this.#links.keys()) this.#drop(link);
  }

  startBroker(): void {
    this.#isUp = true;
    this.#troubleMs = this.options.world.nowMs;
    for (const link of this.#links.keys()) if (!link.isCutUp && !link.isCutDown) this.#restore(link);
  }

  /** The broker, which is away, loses what a stream stored in the last `forMs`. @returns How many messages. */
  lose(stream: StreamName | "state", forMs: number): number {
    return this.#broker.lose(stream, forMs);
  }

  /** The broker forgets every durable consumer. */
  expireConsumers(): void {
    this.#broker.expireConsumers(this.options.bug?.missesExpiry ? Number.MAX_SAFE_INTEGER : noticeLossMs);
  }

  /** The broker loses its leader: for a time it stores nothing, answers nothing and delivers nothing. */
  stall(): void {
    this.#isStalled = true;
  }

  /** A leader is elected; what could not be delivered comes now. */
  unstall(): void {
    this.#isStalled = false;
    this.#troubleMs = this.options.world.nowMs;
    for (const deliver of this.#stalled.splice(0)) deliver();
  }

  /** The last messages that were stored, oldest first. */
  get recent(): readonly { readonly subject: string; readonly data: Uint8Array }[] {
    return this.#recent;
  }

  /** The last report of each kind that each replica has made, by subject. */
  get reports(): ReadonlyMap<string, Uint8Array> {
    return this.#reports;
  }

  /** A message was stored. */
  remember(subject: string, data: Uint8Array): void {
    if (subject.split(".")[2] === "reports") this.#reports.set(subject, data);
    this.#recent.push({ subject, data });
    if (this.#recent.length > 2 * recentMax) this.#recent.splice(0, recentMax);
  }

  get isStalled(): boolean {
    return this.#isStalled;
  }

  whenServing(run: () => void): void {
    if (this.#isStalled) this.#stalled.push(run);
    else run();
  }

  /** The process has closed this connection. */
  forget(link: Link): void {
    this.#announce(link);
    this.#links.delete(link);
    link.forget();
  }

  #linksOf(processes: readonly SimProcess[]): readonly Link[] {
    return [...this.#links].filter(([, process]) => processes.includes(process)).map(([link]) => link);
  }

  /** A connection ended; whoever watches and is not cut off hears of it in some milliseconds. */
  #announce(link: Link): void {
    const name = this.#clients.get(link) ?? "";
    if (!this.#isUp || !this.#links.has(link) || name === "") return;
    for (const [handle, process] of this.#watchers) {
      const isCut = this.#linksOf([process]).some((own) => !own.isConnected || own.isCutDown);
      if (isCut || process === this.#links.get(link)) continue;
      const tell = (): void => (this.#watchers.has(handle) ? handle({ name, reason: "Client Closed" }) : undefined);
      this.options.world.after(3, () => process.enter(tell));
    }
  }

  #drop(link: Link): void {
    if (link.isConnected) {
      this.#announce(link);
      link.forget();
    }
    link.isConnected = false;
    this.#broker.disconnect(link.name);
  }

  #restore(link: Link): void {
    if (link.isConnected) return;
    const { world } = this.options;
    world.after(50 + this.#reconnects.next() * 450, () => {
      if (!this.#isUp || link.isCutUp || link.isCutDown || !this.#links.has(link)) return;
      link.isConnected = true;
      this.#broker.reconnect(link.name);
      link.flush();
    });
  }
}
