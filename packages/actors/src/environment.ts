/** What an actor is given by the process that runs it. The CLI makes the real one, tests make theirs. */

import type { Clock, Logger, Metrics, Random } from "@muster/base";
import type { Identity } from "@muster/protocol";
import type { DisconnectNotice, Subscription, Transport } from "@muster/transport";

/** Heartbeats as an actor sees them. */
export interface Beats {
  progress(amount?: number): void;
  setVersion(version: number | null): void;
  setPhase(phase: string): void;
  setTerm(term: number): void;
  setEpoch(epoch: number): void;
  /** Failed health checks of the engine in a row. */
  setEngine(failures: { readonly liveness: number; readonly generation: number }): void;
  stop(): Promise<void>;
}

/** The ports of one actor to the outside. */
export interface Environment {
  readonly host: string;
  readonly pid: number;
  /** Node that started this process; `null` when none did. */
  readonly node: string | null;
  /** Life of a replica of several processes that this process speaks for: it comes back as no other one. Absent for replicas of one. */
  readonly life?: number;
  readonly clock: Clock;
  /** Runs a turn of the actor's loop later; the default lets I/O come between turns. */
  readonly schedule?: (turn: () => void) => void;
  /** Wall time in ms, for people only. */
  readonly wallMs: () => number;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Opens the actor's connection to its job's broker. */
  connect(identity: Identity): Promise<Transport>;
  /**
   * Watches the broker's announcements of ended connections; absent where they can not be had. `handle` gets the names of the connections,
   * `<role>.<id>.<incarnation>` of actors, maybe with more behind.
   */
  watchDisconnects?(handle: (notice: DisconnectNotice) => void): Promise<Subscription>;
  /** Starts heartbeats; `phases` are the names that `setPhase` may get. */
  startBeats(identity: Identity, phases: readonly string[], intervalMs: number): Beats;
  /** A name that no other life of any actor has. */
  newIncarnation(): string;
}
