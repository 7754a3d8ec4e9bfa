/** One request to an engine, as events: undici's dispatcher with deadlines, and nothing that buffers. */
import type { IncomingHttpHeaders } from "node:http";
import { type Clock, messageOf } from "@muster/base";
import { Agent, type Dispatcher } from "undici";
import type { FailureKind } from "../core/retry.ts";

/** What is sent. */
export interface Outgoing {
  readonly origin: string;
  readonly path: string;
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
  /** From the start to the end of the answer, without the time for which it was paused; and the longest time for which it is. */
  readonly timeoutMs: number;
  /** Between two pieces of an answer that has begun. */
  readonly stallMs: number;
}

/** Hears of the answer: a head, pieces, and one end or one failure. */
export interface AnswerListener {
  head(status: number, headers: IncomingHttpHeaders): void;
  piece(chunk: Buffer): void;
  end(): void;
  failed(kind: FailureKind, detail: string): void;
}

/** A request that is under way. */
export interface Sent {
  /** Ends it; the listener hears nothing more. */
  drop(): void;
  /** Ends it as failed. */
  fail(kind: FailureKind, detail: string): void;
  pause(): void;
  resume(): void;
}

/** Makes the connections to all workers. */
export function openAgent(): Agent {
  return new Agent({
    connect: { timeout: 3_000 },
    // Deadlines are this file's.
    ...{ headersTimeout: 0, bodyTimeout: 0 },
    ...{ keepAliveTimeout: 30_000, pipelining: 1, connections: null, maxHeaderSize: 32_768 },
  });
}

/** Sends a request. */
export function send(agent: Agent, clock: Clock, out: Outgoing, listener: AnswerListener): Sent {
  const exchange = new Exchange(clock, out, listener);
  const { origin, path, method, headers, body } = out;
  agent.dispatch({ origin, path, method, headers, body }, exchange);
  return exchange;
}

class Exchange implements Sent, Dispatcher.DispatchHandler {
  readonly #clock: Clock;
  readonly #out: Outgoing;
  readonly #listener: AnswerListener;
  #controller: Dispatcher.DispatchController | null = null;
  #isOver = false;
  /** When the last piece came; `null` before the answer has begun. */
  #lastMs: number | null = null;
  readonly #startedMs: number;
  /** Time for which it was paused, and since when it is. */
  #heldMs = 0;
  #heldSinceMs: number | null = null;
  #cancel: () => void = () => {};

  constructor(clock: Clock, out: Outgoing, listener: AnswerListener) {
    this.#clock = clock;
    this.#out = out;
    this.#listener = listener;
    this.#startedMs = clock.now();
    this.#watch(Math.min(out.timeoutMs, out.stallMs));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isOver) controller.abort(new Error("given up"));
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (this.#isOver || status < 200) return;
    this.#lastMs = this.#clock.now();
    this.#listener.head(status, headers);
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return;
    this.#lastMs = this.#clock.now();
    this.#listener.piece(chunk);
  }

  onResponseEnd(): void {
    if (this.#settle()) this.#listener.end();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (!this.#settle()) return;
    const { code } = error as NodeJS.ErrnoException;
    this.#listener.failed(failureOfCode(code), messageOf(error).slice(0, 300));
  }

  drop(): void {
    if (this.#settle()) this.#abort("the client has gone");
  }

  fail(kind: FailureKind, detail: string): void {
    if (!this.#settle()) return;
    this.#abort(detail);
    this.#listener.failed(kind, detail);
  }

  pause(): void {
    this.#heldSinceMs ??= this.#clock.now();
    this.#controller?.pause();
  }

  resume(): void {
    this.#heldMs = this.#held();
    this.#heldSinceMs = null;
    this.#lastMs = this.#clock.now();
    this.#controller?.resume();
  }

  #abort(reason: string): void {
    this.#controller?.abort(new Error(reason));
  }

  #held(): number {
    return this.#heldMs + (this.#heldSinceMs === null ? 0 : this.#clock.now() - this.#heldSinceMs);
  }

  /** One timer for both limits, and not one for each piece: it looks when the last piece came. */
  #watch(afterMs: number): void {
    this.#cancel = this.#clock.after(afterMs, () => this.#look());
  }

  #look(): void {
    const { timeoutMs, stallMs } = this.#out;
    const nowMs = this.#clock.now();
    // An engine is given its whole time: what its client took to read is not its own.
    const heldMs = this.#held();
    const leftMs = timeoutMs - (nowMs - this.#startedMs - heldMs);
    // Nothing is late before the answer has begun, and while it is held.
    const lastMs = this.#heldSinceMs === null ? (this.#lastMs ?? nowMs) : nowMs;
    const stallLeftMs = lastMs + stallMs - nowMs;
    if (heldMs >= timeoutMs) this.fail("held", `its client held the answer for ${timeoutMs} ms`);
    else if (leftMs <= 0) this.fail("timeout", `it did not answer within ${timeoutMs} ms`);
    else if (stallLeftMs <= 0) this.fail("stalled", `nothing came for ${stallMs} ms in the middle of its answer`);
    else this.#watch(Math.min(leftMs, stallLeftMs));
  }

  #settle(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#cancel();
    return true;
  }
}

/** What an error of the connection says: of the engine, or only of the machine that the router runs on. */
export function failureOfCode(code: string | undefined): FailureKind {
  if (code === "ECONNREFUSED" || code === "EHOSTUNREACH") return "refused";
  if (code === "UND_ERR_CONNECT_TIMEOUT" || code === "ETIMEDOUT") return "timeout";
  return code !== undefined && codesOfHost.has(code) ? "not_asked" : "reset";
}

/** No name service, no route, no free port, no file descriptor: the engine was not asked. */
const codesOfHost = new Set([
  ...["ENOTFOUND", "EAI_AGAIN", "EAI_FAIL", "EAI_NODATA", "EAI_NONAME", "ENETUNREACH", "ENETDOWN"],
  ...["EADDRNOTAVAIL", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"],
]);
