/** One connection to the broker in memory: up, cut or closed. */
import type { Clock, ErrorFactory, MusterError } from "@muster/base";
import { errors } from "../errors.ts";
import { operationTimeoutMs } from "../streams.ts";
import type { TransportStatus } from "../transport.ts";

export class MemoryConnection {
  readonly #clock: Clock;
  readonly #listeners = new Set<(status: TransportStatus) => void>();
  readonly #changes = new Set<() => void>();
  #isConnected = true;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.#isClosed;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Waits until connected. @throws MUSTER_ERR_TRANSPORT_CLOSED, or `expired` at the deadline. */
  async ready(what: string, timeoutMs = operationTimeoutMs, expired: ErrorFactory = errors.BrokerTimeout) {
    const deadline = this.#clock.now() + timeoutMs;
    for (;;) {
      if (this.#isClosed) throw errors.TransportClosed({ what });
      if (this.#isConnected) return;
      const leftMs = deadline - this.#clock.now();
      if (leftMs <= 0) throw expired({ what, timeoutMs, reason: "disconnected" });
      await this.#changeWithin(leftMs);
    }
  }

  disconnect(): void {
    if (!this.isConnected) return;
    this.#isConnected = false;
    this.#change({ type: "disconnected" });
  }

  reconnect(): void {
    if (this.#isConnected || this.#isClosed) return;
    this.#isConnected = true;
    this.#change({ type: "reconnected" });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#change({ type: "closed" });
  }

  /** Calls `changed` at each change of the connection. @returns Stops the calls. */
  onChange(changed: () => void): () => void {
    this.#changes.add(changed);
    return () => void this.#changes.delete(changed);
  }

  onStatus(listener: (status: TransportStatus) => void): () => void {
    listener({ type: this.isConnected ? "connected" : this.#isClosed ? "closed" : "disconnected" });
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  report(error: MusterError): void {
    for (const listener of [...this.#listeners]) listener({ type: "error", error });
  }

  #change(status: TransportStatus): void {
    for (const changed of [...this.#changes]) changed();
    for (const listener of [...this.#listeners]) listener(status);
  }

  #changeWithin(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        stop();
        resolve();
      };
      const cancel = this.#clock.after(delayMs, done);
      const stop = this.onChange(done);
    });
  }
}
