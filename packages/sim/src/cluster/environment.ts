/** The environment of a simulated process: production's interface, virtual time, a link instead of a socket. */
import type { Environment } from "@muster/actors";
import type { Beats } from "@muster/actors/internal";
import { noMetrics, silentLogger } from "@muster/base";
import { type Body, createEnveloper, decodeMessage, encodeMessage, type Identity, subjectsOf } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import type { AnyNetwork } from "../net/network.ts";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";

/** Wall time of the simulation's start; for people only. */
export const epochMs = 1_700_000_000_000;

/** What an environment is made of. */
export interface EnvironmentOptions {
  readonly world: World;
  readonly network: AnyNetwork;
  readonly process: SimProcess;
  readonly heartbeatIntervalMs: number;
  readonly newIncarnation: () => string;
  /** Told of each new life inside this process. */
  readonly onIdentity: (identity: Identity, process: SimProcess) => void;
}

/** Makes the environment of one process. */
export function createEnvironment(options: EnvironmentOptions): Environment {
  const { world, network, process } = options;
  return {
    host: process.host,
    pid: process.pid,
    node: process.parent,
    clock: process.clock,
    schedule: process.schedule,
    wallMs: () => Math.floor(epochMs + process.wallOffsetMs + world.nowMs),
    random: world.random(process.pid, 3),
    logger: silentLogger,
    metrics: noMetrics,
    connect: async (identity) => {
      options.onIdentity(identity, process);
      return await network.connect(process, nameOf(identity));
    },
    watchDisconnects: (handle) => network.watchDisconnects(process, handle),
    startBeats: (identity, phases) => new SimBeats(options, identity, phases),
    newIncarnation: options.newIncarnation,
  };
}

function nameOf({ role, id, incarnation }: Identity): string {
  return `${role}.${id}.${incarnation}`;
}

/** Heartbeats from a thread of their own: they go on while the main thread hangs, and stop with the process. */
class SimBeats implements Beats {
  readonly #options: EnvironmentOptions;
  readonly #identity: Identity;
  readonly #enveloper: ReturnType<typeof createEnveloper>;
  readonly #body: { -readonly [K in keyof Body<"heartbeat.beat">]: Body<"heartbeat.beat">[K] };
  #transport: Transport | null = null;
  #isStopped = false;

  constructor(options: EnvironmentOptions, identity: Identity, phases: readonly string[]) {
    this.#options = options;
    this.#identity = identity;
    const wallMs = (): number => Math.floor(epochMs + options.process.wallOffsetMs + options.world.nowMs);
    this.#enveloper = createEnveloper({ ...identity, wallMs });
    this.#body = { version: null, phase: phases[0] ?? "", progress: 0, loopLagMs: 0, rssBytes: 1 };
    void options.network.connect(options.process, `${nameOf(identity)}.hb`).then((transport) => {
      this.#transport = transport;
      const subscribed = transport.subscribe(subjectsOf(identity.job).probe(identity.id), (_, data) =>
        this.#answer(data),
      );
      // Without the subscription it beats on, like the real thread; a process that has ended needs none.
      subscribed.catch(() => null);
      this.#beat();
    });
  }

  progress(amount = 1): void {
    this.#body.progress += amount;
  }

  setVersion(version: number | null): void {
    this.#body.version = version;
  }

  setPhase(phase: string): void {
    this.#body.phase = phase;
  }

  setTerm(term: number): void {
    this.#enveloper.setTerm(term);
  }

  setEpoch(epoch: number): void {
    this.#enveloper.setEpoch(epoch);
  }

  setEngine(engine: { readonly liveness: number; readonly generation: number }): void {
    this.#body.engine = engine;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#transport?.close();
  }

  #answer(data: Uint8Array): void {
    const { id, incarnation, job, role } = this.#identity;
    const question = decodeMessage(data);
    if (question.kind !== "replica.probe" || question.to !== incarnation) return;
    const answer = this.#enveloper.stamp("probe.answered", { nonce: question.body.nonce, by: "thread" });
    this.#transport?.send(subjectsOf(job).heartbeat(role, id), encodeMessage(answer));
  }

  #beat(): void {
    const { process, world, heartbeatIntervalMs } = this.#options;
    if (this.#isStopped || process.isDead) return;
    const { job, id, role } = this.#identity;
    this.#body.loopLagMs = process.state === "hung" ? this.#body.loopLagMs + heartbeatIntervalMs : 0;
    if (process.state !== "paused") {
      const message = this.#enveloper.stamp("heartbeat.beat", { ...this.#body });
      this.#transport?.send(subjectsOf(job).heartbeat(role, id), encodeMessage(message));
    }
    world.after(heartbeatIntervalMs * (0.9 + 0.2 * world.random(process.pid, world.events).next()), () => this.#beat());
  }
}
