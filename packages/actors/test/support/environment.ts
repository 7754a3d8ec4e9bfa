/** What actors of a test are given: the clock of the process, a broker in memory, heartbeats on the main thread, errors kept. */
import { type Clock, noMetrics, randomOf, silentLogger } from "@muster/base";
import { type Body, createEnveloper, encodeMessage, type Identity, subjectsOf } from "@muster/protocol";
import { systemClock } from "@muster/runtime";
import type { Transport } from "@muster/transport";
import type { MemoryBroker } from "@muster/transport/internal";
import type { Environment } from "../../src/index.ts";
import type { Beats } from "../../src/internal.ts";

/** The clock of this process. */
export const clock: Clock = systemClock();

/** Name of the host that every actor of a test runs on. */
export const host = "test-host";

/** An actor's process, as its job sees it. */
export interface TestProcess {
  readonly pid: number;
  readonly environment: Environment;
  /** Incarnations in order. */
  readonly lives: readonly string[];
  /** How often each of them is to beat, in milliseconds. */
  readonly beatsMs: readonly number[];
  /** What was logged as an error. */
  readonly faults: readonly unknown[];
}

/** What stands between an actor and the broker. */
export type Wire = (identity: Identity, transport: Transport) => Transport;

/** Makes processes whose ids and incarnations differ. */
export function processesOn(broker: MemoryBroker, wire: Wire = (_, transport) => transport): () => TestProcess {
  let made = 0;
  let born = 0;
  return () => {
    const pid = ++made;
    const lives: string[] = [];
    const beatsMs: number[] = [];
    const faults: unknown[] = [];
    const connect = (identity: Identity): Transport =>
      wire(identity, broker.connect(`${identity.role}.${identity.id}.${identity.incarnation}`));
    const environment: Environment = {
      host,
      pid,
      node: null,
      clock,
      wallMs: Date.now,
      random: randomOf(pid),
      logger: { ...silentLogger, error: ({ error }: { error?: unknown }) => void faults.push(error) },
      metrics: noMetrics,
      connect: async (identity) => {
        lives.push(identity.incarnation);
        return connect(identity);
      },
      startBeats: (identity, phases, intervalMs) => {
        beatsMs.push(intervalMs);
        return new MainThreadBeats(connect(identity), { identity, intervalMs, phase: phases[0] ?? "" });
      },
      newIncarnation: () => `i${++born}`,
    };
    return { pid, environment, lives, beatsMs, faults };
  };
}

class MainThreadBeats implements Beats {
  readonly #transport: Transport;
  readonly #identity: Identity;
  readonly #intervalMs: number;
  readonly #enveloper: ReturnType<typeof createEnveloper>;
  readonly #body: { -readonly [K in keyof Body<"heartbeat.beat">]: Body<"heartbeat.beat">[K] };
  #cancel = (): void => {};

  constructor(
    transport: Transport,
    { identity, intervalMs, phase }: { identity: Identity; intervalMs: number; phase: string },
  ) {
    this.#transport = transport;
    this.#identity = identity;
    this.#intervalMs = intervalMs;
    this.#enveloper = createEnveloper({ ...identity, wallMs: Date.now });
    this.#body = { version: null, phase, progress: 0, loopLagMs: 0, rssBytes: 1 };
    this.#beat();
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
    this.#cancel();
    await this.#transport.close();
  }

  #beat(): void {
    const { job, role, id } = this.#identity;
    const message = this.#enveloper.stamp("heartbeat.beat", { ...this.#body });
    this.#transport.send(subjectsOf(job).heartbeat(role, id), encodeMessage(message));
    this.#cancel = clock.after(this.#intervalMs, () => this.#beat());
  }
}
