/**
 * One connection to the broker and the one way to ask it something: {@link Link.call} repeats an attempt until it is answered,
 * across disconnects, up to a deadline. The client drops what is sent while disconnected and lets requests in flight hang, so
 * nothing above this file talks to it without `call`.
 */
import { randomBytes } from "node:crypto";
import { type ErrorFactory, type Logger, type MusterError, messageOf } from "@muster/base";
import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection, Status } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import { operationTimeoutMs } from "../streams.ts";
import type { TransportStatus } from "../transport.ts";
import { isTransient, NoAnswer, PutOff, translate } from "./translate.ts";

const attemptTimeoutMs = 2_000;
/** How much longer than its deadline a call may take when whoever answers says that it comes later. */
const putOffMaxMs = 600_000;
const backoffMs = [20, 50, 100, 200, 400];

/** How long to go on asking, and what to throw when nobody answered. */
export interface CallOptions {
  readonly timeoutMs?: number;
  /** Default MUSTER_ERR_BROKER_TIMEOUT. */
  readonly expired?: ErrorFactory;
}

/** Role and id. */
type Owner = readonly [role: string, id: string];

export class Link {
  /** Role of who is connected, and its id. */
  readonly role: string;
  readonly id: string;
  /** 128 random bits that nobody else knows. */
  readonly secret = randomBytes(16).toString("base64url");
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly logger: Logger;
  #isConnected = true;
  #isClosed = false;
  readonly #listeners = new Set<(status: TransportStatus) => void>();
  /** Called at each change of the connection; every wait of this class ends on one. */
  readonly #changes = new Set<() => void>();

  private constructor([role, id]: Owner, connection: NatsConnection, manager: JetStreamManager, logger: Logger) {
    this.role = role;
    this.id = id;
    this.connection = connection;
    this.manager = manager;
    this.js = jetstream(connection, { timeout: attemptTimeoutMs });
    this.logger = logger;
    this.#watch().catch((error: unknown) => this.report(translate(error, "the connection")));
  }

  static async of(owner: Owner, connection: NatsConnection, logger: Logger): Promise<Link> {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: attemptTimeoutMs });
    return new Link(owner, connection, manager, logger);
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.#isClosed;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Asks until answered. @throws what `translate` makes of a final error, or `options.expired` at the deadline. */
  async call<T>(what: string, attempt: () => Promise<T>, options: CallOptions = {}): Promise<T> {
    const timeoutMs = options.timeoutMs ?? operationTimeoutMs;
    let deadline = performance.now() + timeoutMs;
    const lastMs = deadline + putOffMaxMs;
    let last: unknown;
    for (let tries = 0; ; tries++) {
      const leftMs = deadline - performance.now();
      if (this.#isClosed) throw errors.TransportClosed({ what }, last);
      if (leftMs <= 0) {
        const reason = last === undefined ? "disconnected" : messageOf(last);
        throw (options.expired ?? errors.BrokerTimeout)({ what, timeoutMs, reason }, last);
      }
      if (!this.#isConnected) {
        await this.pause(leftMs);
        continue;
      }
      try {
        return await this.#orCut(attempt(), leftMs);
      } catch (error) {
        if (!isTransient(error)) throw translate(error, what);
        last = error;
        if (error instanceof PutOff) {
          deadline = Math.min(performance.now() + error.retryMs + timeoutMs, lastMs);
          await this.pause(error.retryMs);
          continue;
        }
      }
      await this.pause(Math.min(backoffMs[tries] ?? 500, leftMs));
    }
  }

  /** Waits `delayMs`, less when the connection changes or closes. */
  pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#changes.delete(done);
        resolve();
      };
      const timer = setTimeout(done, delayMs);
      this.#changes.add(done);
    });
  }

  onStatus(listener: (status: TransportStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Tells the listeners of a fault that no caller awaits. */
  report(error: MusterError): void {
    this.#emit({ type: "error", error });
  }

  async close(): Promise<void> {
    if (!this.#isClosed) this.#end();
    await this.connection.close();
  }

  /** Awaits an attempt, but not over a disconnect: an answer could no longer arrive. */
  #orCut<T>(work: Promise<T>, leftMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const cut = (): void => end(() => reject(new NoAnswer("the connection was cut")));
      const timer = setTimeout(() => end(() => reject(new NoAnswer("no answer"))), leftMs);
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        this.#changes.delete(cut);
        settle();
      };
      this.#changes.add(cut);
      work.then(
        (value) => end(() => resolve(value)),
        (error: unknown) => end(() => reject(error)),
      );
    });
  }

  async #watch(): Promise<void> {
    for await (const status of this.connection.status()) this.#apply(status);
    const reason = await this.connection.closed();
    if (this.#isClosed) return;
    if (reason instanceof Error) this.report(translate(reason, "the connection"));
    this.#end();
  }

  #apply(status: Status): void {
    if (this.#isClosed) return;
    if (status.type === "disconnect") {
      this.#isConnected = false;
      this.#change({ type: "disconnected" });
    } else if (status.type === "reconnect") {
      this.#isConnected = true;
      this.#change({ type: "reconnected" });
    } else if (status.type === "error") {
      this.report(translate(status.error, "the connection"));
    } else {
      this.logger.debug({ status: status.type }, "broker connection status");
    }
  }

  #end(): void {
    this.#isClosed = true;
    this.#isConnected = false;
    this.#change({ type: "closed" });
  }

  #change(status: TransportStatus): void {
    for (const change of [...this.#changes]) change();
    this.#emit(status);
  }

  #emit(status: TransportStatus): void {
    if (status.type === "error") this.logger.warn({ err: status.error }, "broker connection fault");
    for (const listener of [...this.#listeners]) {
      try {
        listener(status);
      } catch (error) {
        this.logger.error({ err: error, status: status.type }, "a listener of the connection failed");
      }
    }
  }
}
