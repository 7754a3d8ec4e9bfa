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
  /** From the start to the end of the answer. */
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
  #isPaused = false;
  #lastMs: number;
  readonly #cancelDeadline: () => void;
  #cancelStall: () => void = () => {};

  constructor(clock: Clock, out: Outgoing, listener: AnswerListener) {
    this.#clock = clock;
    this.#out = out;
    this.#listener = listener;
    this.#lastMs = clock.now();
    this.#cancelDeadline = clock.after(out.timeoutMs, () =>
      this.fail("timeout", `it did not answer within ${out.timeoutMs} ms`),
    );
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isOver) controller.abort(new Error("given up"));
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (this.#isOver || status < 200) return;
    this.#lastMs = this.#clock.now();
    this.#watch(this.#out.stallMs);
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
    const isRefused = code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EHOSTUNREACH";
    const isLate = code === "UND_ERR_CONNECT_TIMEOUT" || code === "ETIMEDOUT";
    this.#listener.failed(isRefused ? "refused" : isLate ? "timeout" : "reset", messageOf(error).slice(0, 300));
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
    this.#isPaused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#lastMs = this.#clock.now();
    this.#controller?.resume();
  }

  #abort(reason: string): void {
    this.#controller?.abort(new Error(reason));
  }

  /** One timer, not one for each piece: it looks when the last piece came. */
  #watch(afterMs: number): void {
    const { stallMs } = this.#out;
    this.#cancelStall = this.#clock.after(afterMs, () => {
      const leftMs = this.#isPaused ? stallMs : this.#lastMs + stallMs - this.#clock.now();
      if (leftMs > 0) this.#watch(leftMs);
      else this.fail("stalled", `nothing came for ${stallMs} ms in the middle of its answer`);
    });
  }

  #settle(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#cancelStall();
    return true;
  }
}
