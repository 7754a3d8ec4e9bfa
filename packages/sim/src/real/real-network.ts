/**
 * The network of the simulation on a real broker: every process has connections of production's transport to a nats-server, through sockets that
 * can be cut. What a seed lets go wrong at a message (failpoints, noise) goes wrong in front of that transport, as it does in the simulation.
 */
import { invariant, mixSeed } from "@muster/base";
import type { DisconnectNotice, StreamName, Subscription, Transport } from "@muster/transport";
import type { CutDirection } from "../chaos/broker-proxy.ts";
import { Link, type Noise, quietNoise } from "../net/link.ts";
import type { AnyNetwork } from "../net/network.ts";
import { SimTransport } from "../net/sim-transport.ts";
import { Tampering } from "../net/tampering.ts";
import type { NetworkOptions, Wire } from "../net/wire.ts";
import type { SimProcess } from "../world/process.ts";
import { RealBroker } from "./real-broker.ts";
import { Telling } from "./telling.ts";

/** How long after a cut what was held back may still be on its way. */
const settleMs = 10_000;

/** A loss of what a stream will have stored last, known beforehand because the files have to be copied before. */
export interface LossToCome {
  readonly stream: StreamName | "state";
  /** From when on what is stored will be lost, ms of the world. */
  readonly fromMs: number;
}

/** What a network on a real broker is made of, beside what every one is. */
export interface RealNetworkOptions {
  readonly natsServer: string;
  readonly losses: readonly LossToCome[];
  /** Hears what fails outside of a simulated process. */
  readonly onFailed: (error: unknown) => void;
}

/** The broker and everybody's connections to it. */
export class RealNetwork implements AnyNetwork {
  noise: Noise = quietNoise;
  readonly options: NetworkOptions;
  readonly tampering: Tampering;
  readonly #onFailed: (error: unknown) => void;
  readonly #telling: Telling;
  readonly #broker: Promise<RealBroker>;
  readonly #lives: Map<string, SimProcess>;
  readonly #open = new Set<Transport>();
  /** What ends the cut of a process. */
  readonly #cuts = new Map<SimProcess, (() => void)[]>();
  readonly #troubles = new WeakMap<SimProcess, number>();
  /** What puts the files of a stream back, oldest first. */
  readonly #kept = new Map<StreamName | "state", { readonly lastSeq: number; readonly putBack: () => void }[]>();
  #troubleMs = Number.NEGATIVE_INFINITY;
  #connections = 0;
  #isUp = true;
  #isStalled = false;

  constructor(options: NetworkOptions, { natsServer, losses, onFailed }: RealNetworkOptions) {
    const { world, job, bytesMax, observer } = options;
    const lives = new Map<string, SimProcess>();
    this.#lives = lives;
    this.#onFailed = onFailed;
    this.tampering = new Tampering(world.random(13));
    this.#telling = new Telling(job, lives, (message) => observer.stored(message));
    // The way to the checkers is the telling: a sender's word is one of several.
    const told = {
      stored: () => {},
      purged: (purge: Parameters<NonNullable<typeof observer.purged>>[0]) => observer.purged?.(purge),
      accepted: (message: Parameters<typeof observer.accepted>[0]) => observer.accepted(message),
    };
    this.options = { ...options, observer: told };
    const idOf = (name: string): string => lives.get(name.split(".")[2] ?? "")?.name ?? "";
    this.#broker = RealBroker.start({ natsServer, job, bytesMax, idOf, onFailed });
    this.#broker.catch(onFailed);
    for (const loss of losses) world.after(loss.fromMs, () => this.#keep(loss.stream));
  }

  /** Nobody can speak for others here: faults that would are not among those of a real broker. */
  get store(): Transport {
    return unreal("a hand of its own");
  }

  readonly recent = [];
  readonly reports = new Map<string, Uint8Array>();

  async connect(process: SimProcess, client = ""): Promise<Transport> {
    const name = client === "" ? `${process.role}.${process.node}.${process.role}` : client;
    this.#lives.set(name.split(".")[2] ?? "", process);
    const broker = await this.#broker;
    const inner = await broker.connect(name);
    this.#open.add(inner);
    const close = (): void => void this.#close(inner);
    process.onDeath(close);
    inner.onStatus((status) => {
      // A handler that throws would end a real process by its own means; here it ends the run, as everywhere in the simulation.
      if (status.type === "error" && status.error.code === "MUSTER_ERR_DELIVERY_HANDLER_FAILED")
        this.#onFailed(status.error);
    });
    const transport = this.#transportOf(process, inner);
    return await new Promise((resolve) => process.enter(() => resolve(transport)));
  }

  #transportOf(process: SimProcess, inner: Transport): Transport {
    const random = this.options.world.random(mixSeed(++this.#connections, 11));
    const told = this.#telling.through(process, inner);
    const link = new Link(`${process.name}/${this.#connections}`, this.options.world, {
      random,
      noise: () => this.noise,
    });
    const network: Wire = {
      options: this.options,
      store: told,
      tampering: this.tampering,
      triesAgainMs: null,
      remember: () => {},
      isStalled: false,
      whenServing: (run) => run(),
      forget: () => link.forget(),
    };
    return new SimTransport({ network, process, link, inner: told });
  }

  async watchDisconnects(process: SimProcess, handle: (notice: DisconnectNotice) => void): Promise<Subscription> {
    const broker = await this.#broker;
    const hear = (notice: DisconnectNotice): void =>
      process.enter(() => (this.#cuts.has(process) ? undefined : handle(notice)));
    const subscription = await broker.watchDisconnects(hear);
    process.onDeath(() => void subscription.close());
    return subscription;
  }

  partition(processes: readonly SimProcess[], way: CutDirection): void {
    for (const process of processes) void this.#cut(process, way);
  }

  disconnect(processes: readonly SimProcess[]): void {
    for (const process of processes) void this.#cut(process, "both", true);
  }

  heal(processes: readonly SimProcess[]): void {
    const { nowMs } = this.options.world;
    for (const process of processes) {
      for (const release of this.#cuts.get(process)?.splice(0) ?? []) release();
      this.#cuts.delete(process);
      this.#troubles.set(process, nowMs);
      if (process.role === "controller") this.#troubleMs = nowMs;
    }
  }

  isServed(process: SimProcess): boolean {
    const isCut = [...this.#cuts.keys()].some((cut) => cut === process || cut.role === "controller");
    const lastMs = Math.max(this.#troubleMs, this.#troubles.get(process) ?? Number.NEGATIVE_INFINITY);
    return this.#isUp && !this.#isStalled && !isCut && this.options.world.nowMs - lastMs > settleMs;
  }

  stopBroker(): void {
    if (!this.#isUp) return;
    this.#isUp = false;
    void this.#broker.then((broker) => broker.kill());
  }

  startBroker(): void {
    if (this.#isUp) return;
    this.#isUp = true;
    this.#troubleMs = this.options.world.nowMs;
    void this.#broker.then((broker) => broker.restart());
  }

  /** The broker, which is away, gets the files back that it had some time ago. @returns How many messages are lost by that. */
  lose(stream: StreamName | "state"): number {
    const kept = this.#kept.get(stream)?.shift();
    if (!kept) return 0;
    kept.putBack();
    if (stream === "state") return 0;
    const lost = this.#telling.lastOf(stream) - kept.lastSeq;
    this.#telling.lost(stream, kept.lastSeq);
    return lost;
  }

  #keep(stream: StreamName | "state"): void {
    const lastSeq = stream === "state" ? 0 : this.#telling.lastOf(stream);
    const keeping = this.#broker.then(async (broker) => {
      const putBack = await broker.keep(stream);
      this.#kept.set(stream, [...(this.#kept.get(stream) ?? []), { lastSeq, putBack }]);
    });
    keeping.catch(this.#onFailed);
  }

  expireConsumers(): void {
    unreal("consumers that expire when they are told to");
  }

  stall(): void {
    if (this.#isStalled) return;
    this.#isStalled = true;
    void this.#broker.then((broker) => broker.freeze());
  }

  unstall(): void {
    if (!this.#isStalled) return;
    this.#isStalled = false;
    this.#troubleMs = this.options.world.nowMs;
    void this.#broker.then((broker) => broker.thaw());
  }

  /** Closes every connection and ends the server. */
  async close(): Promise<void> {
    for (const transport of [...this.#open]) await this.#close(transport);
    await (await this.#broker).close();
  }

  async #close(transport: Transport): Promise<void> {
    this.#open.delete(transport);
    await transport.close();
  }

  async #cut(process: SimProcess, way: CutDirection, isTold = false): Promise<void> {
    const cuts = this.#cuts.get(process) ?? [];
    this.#cuts.set(process, cuts);
    const { proxy } = await this.#broker;
    if (this.#cuts.get(process) !== cuts) return;
    cuts.push(proxy.cut(process.name, way));
    if (isTold) proxy.reset(process.name);
  }
}

/** Scenarios of real brokers are without what needs it. */
function unreal(what: string): never {
  invariant(false, `a real broker has not ${what}`);
}
