/** The servers of one engine: the one with the fewest requests that serves, ties in turn. */
import { errors } from "../errors.ts";
import type { ServedOptions } from "./options.ts";
import type { Server } from "./server.ts";

/** Servers to draw from. */
export class Pool {
  readonly servers: readonly Server[];
  readonly #options: Pick<ServedOptions, "concurrency" | "times">;
  #next = 0;
  readonly #waiting = new Set<() => void>();

  constructor(servers: readonly Server[], options: Pick<ServedOptions, "concurrency" | "times">) {
    this.servers = servers;
    this.#options = options;
  }

  get size(): number {
    return this.servers.length;
  }

  get names(): string {
    return this.servers.map(({ name }) => name).join(", ");
  }

  /** Somebody may be served now who could not be before. */
  changed(): void {
    const all = [...this.#waiting];
    this.#waiting.clear();
    for (const go of all) go();
  }

  /** Waits for a server with room, and takes a place there. @throws The signal's reason; MUSTER_ERR_SERVER_NONE when none serves for as long as one may start */
  async take(signal: AbortSignal): Promise<Server> {
    let untilMs = performance.now() + this.#options.times.startMs;
    for (;;) {
      signal.throwIfAborted();
      const server = this.#pick();
      if (server) {
        server.active += 1;
        return server;
      }
      const leftMs = untilMs - performance.now();
      // All places taken is no fault of the servers: their calls end.
      if (this.servers.some(({ isReady }) => isReady)) untilMs = performance.now() + this.#options.times.startMs;
      else if (leftMs <= 0) throw this.none();
      await this.#change(signal, Math.max(1, leftMs));
    }
  }

  free(server: Server): void {
    server.active -= 1;
    const [first] = this.#waiting;
    if (!first) return;
    this.#waiting.delete(first);
    first();
  }

  /** Why no server serves. */
  none(): Error {
    const [failure] = this.servers.flatMap((server) => (server.failure ? [server.failure] : []));
    const reason = failure instanceof Error ? failure.message : "none has weights yet";
    return errors.ServerNone({ urls: this.names, reason }, failure);
  }

  #pick(): Server | null {
    this.#next += 1;
    let best: Server | null = null;
    for (let at = 0; at < this.servers.length; at++) {
      const server = this.servers[(this.#next + at) % this.servers.length] as Server;
      if (!server.isReady || server.active >= this.#options.concurrency) continue;
      if (!best || server.active < best.active) best = server;
    }
    return best;
  }

  #change(signal: AbortSignal, leftMs: number): Promise<void> {
    return new Promise((resolve) => {
      const go = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(go);
        signal.removeEventListener("abort", go);
        resolve();
      };
      const timer = setTimeout(go, leftMs);
      this.#waiting.add(go);
      signal.addEventListener("abort", go, { once: true });
    });
  }
}
