/**
 * Requests to one life of a worker and its answers. Each request has a number, a deadline, and exactly one answer; a worker that answers twice, for
 * nobody, late or not in frames is not asked again: it is ended, and everybody who waits hears why.
 */
import { messageOf } from "@muster/base";
import type { z } from "@muster/protocol";
import { errors } from "../errors.ts";
import { HelloReader, type WorkerSelf } from "./description.ts";
import { FrameReader, frameOf } from "./frames.ts";
import { faultOf, messageSchema, protocolVersion, type WorkerRole } from "./messages.ts";
import { lostError, type ProcessOptions, WorkerProcess } from "./worker-process.ts";

/** How long things may take. */
export interface LinkTimes {
  /** From start to hello. */
  readonly startMs: number;
  /** Of one request. */
  readonly callMs: number;
  /** Without an answer to a ping. */
  readonly silenceMs: number;
  /** From a cancel to the answer. */
  readonly cancelMs: number;
}

/** What is asked of a worker before anything else. */
export interface WorkerFacts {
  /** `describe`: it is asked what it is, and nothing comes after its hello. */
  readonly role: WorkerRole | "describe";
  readonly vocab: number;
  readonly maxContext: number;
  readonly tokenizer: string;
}

/** Options of {@link WorkerLink.open}. */
export interface LinkOptions extends ProcessOptions {
  readonly times: LinkTimes;
  readonly facts: WorkerFacts;
}

interface Waiting {
  readonly method: string;
  readonly resolve: (result: Readonly<Record<string, unknown>>) => void;
  readonly reject: (error: unknown) => void;
  /** Stops its deadline. */
  stop: () => void;
}

/** The first message to a worker. Pure. */
export function helloTo(facts: WorkerFacts, protocols: readonly number[] = [protocolVersion]): object {
  return { type: "hello", protocols, ...facts };
}

/** A worker that said hello. */
export class WorkerLink {
  readonly #options: LinkOptions;
  readonly #process: WorkerProcess;
  readonly #frames = new FrameReader();
  readonly #waiting = new Map<number, Waiting>();
  readonly #pongs = new Map<number, Deferred<void>>();
  readonly #pinging: NodeJS.Timeout;
  readonly #hello = deferred<WorkerSelf>();
  readonly #greeting = new HelloReader();
  readonly #lost = deferred<Error>();
  #isGreeted = false;
  #asked = 0;
  #pinged = 0;
  #fault: Error | null = null;
  #isClosed = false;

  private constructor(options: LinkOptions) {
    this.#options = options;
    this.#process = new WorkerProcess(options);
    this.#hello.promise.catch(() => {});
    this.#process.socket.on("data", (bytes: Buffer) => this.#hear(bytes));
    this.#pinging = setInterval(() => this.#watch(), options.times.silenceMs / 4).unref();
    void this.#process.ended.then((reason) => this.#gone(reason));
  }

  /**
   * Starts a worker and hears what it is.
   *
   * @throws MUSTER_ERR_WORKER_LOST, MUSTER_ERR_WORKER_PROTOCOL, MUSTER_ERR_WORKER_REFUSES
   */
  static async open(options: LinkOptions): Promise<WorkerLink & { readonly description: WorkerSelf }> {
    const link = new WorkerLink(options);
    const { startMs } = options.times;
    const stop = atDeadline(startMs, () => link.#process.kill(`it did not say hello within ${startMs} ms`));
    try {
      link.#send(helloTo(options.facts));
      return Object.assign(link, { description: await link.#hello.promise });
    } catch (error) {
      await link.close();
      throw error;
    } finally {
      stop();
    }
  }

  /** Process id, for those who watch it. */
  get pid(): number {
    return this.#process.pid;
  }

  /** Why it is not asked any more; `null` while it is well. */
  get fault(): Error | null {
    return this.#fault;
  }

  /** Settles with the cause when the worker is gone without having been closed. */
  get lost(): Promise<Error> {
    return this.#lost.promise;
  }

  /**
   * Asks, and waits for the answer.
   *
   * @throws MUSTER_ERR_WORKER_CALL when the worker says that it can not; MUSTER_ERR_WORKER_LOST, MUSTER_ERR_WORKER_PROTOCOL when it is gone; the reason of
   *   `signal`, after which the worker has a while to answer
   */
  async call(
    method: string,
    params: object,
    options: { readonly signal?: AbortSignal; readonly timeoutMs?: number } = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const { signal, timeoutMs = this.#options.times.callMs } = options;
    signal?.throwIfAborted();
    if (this.#fault) throw this.#fault;
    if (this.#isClosed) throw errors.EngineClosed({ operation: method });
    const id = this.#asked + 1;
    const frame = requestOf(method, { type: "request", id, method, deadlineMs: timeoutMs, params });
    this.#asked = id;
    const { promise, resolve, reject } = deferred<Readonly<Record<string, unknown>>>();
    const stop = atDeadline(timeoutMs, () => this.#process.kill(`it did not answer ${method} within ${timeoutMs} ms`));
    this.#waiting.set(id, { method, resolve, reject, stop });
    this.#process.socket.write(frame);
    const cancel = (): void => this.#cancel(id);
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      const result = await promise;
      signal?.throwIfAborted();
      return result;
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  /** As {@link call}, for an answer of a form. @throws as it does; MUSTER_ERR_WORKER_PROTOCOL for an answer that does not have it, which ends the worker */
  async ask<T>(
    method: string,
    params: object,
    schema: z.ZodType<T>,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<T> {
    const { data, error } = schema.safeParse(await this.call(method, params, options));
    if (error) throw this.condemn(`its answer to ${method} is wrong in ${faultOf(error)}`);
    return data;
  }

  /** Asks whether somebody listens. @throws MUSTER_ERR_WORKER_LOST when nobody does */
  async ping(): Promise<void> {
    if (this.#fault) throw this.#fault;
    const pong = deferred<void>();
    this.#pongs.set(++this.#pinged, pong);
    this.#send({ type: "ping", id: this.#pinged });
    const { silenceMs } = this.#options.times;
    const stop = atDeadline(silenceMs, () => this.#process.kill(`it did not answer a ping within ${silenceMs} ms`));
    try {
      await pong.promise;
    } finally {
      stop();
    }
  }

  /** Says something that has no answer. */
  tell(message: object): void {
    if (!this.#isClosed) this.#send(message);
  }

  /** Ends the worker for something that it did. @returns The error, for whoever found it. */
  condemn(reason: string): Error {
    this.#fail(errors.WorkerProtocol({ reason }), reason);
    return this.#fault!;
  }

  /** @returns False for a worker that had to be ended. Harmless twice. */
  async close(): Promise<boolean> {
    this.#isClosed = true;
    return await this.#process.close();
  }

  #send(message: object): void {
    this.#process.socket.write(frameOf(message));
  }

  #cancel(id: number): void {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    const { cancelMs } = this.#options.times;
    this.#send({ type: "cancel", id });
    waiting.stop();
    const cause = `it did not answer ${waiting.method} within ${cancelMs} ms after that was cancelled`;
    waiting.stop = atDeadline(cancelMs, () => this.#process.kill(cause));
  }

  /** One ping at a time: a process that is slow is not buried under them. */
  #watch(): void {
    if (this.#isGreeted && this.#pongs.size === 0) this.ping().catch(() => {}); // whoever calls hears of it
  }

  #hear(bytes: Buffer): void {
    if (this.#fault) return;
    try {
      for (const message of this.#frames.take(bytes)) this.#take(message);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#fail(errors.WorkerProtocol({ reason: `it sent ${reason}` }, error), reason);
    }
  }

  #take(message: object): void {
    if (!this.#isGreeted) {
      try {
        const described = this.#greeting.take(message);
        this.#isGreeted = described !== null;
        if (described) this.#hello.resolve(described);
      } catch (error) {
        this.#fail(error as Error, "its hello was refused");
      }
      return;
    }
    const { data, error } = messageSchema.safeParse(message);
    if (!data) throw new Error(`a message that is wrong in ${faultOf(error)}`);
    if (data.type === "pong") {
      const pong = this.#pongs.get(data.id);
      if (!pong) throw new Error(`an answer to ping ${data.id}, which nobody waits for`);
      this.#pongs.delete(data.id);
      pong.resolve();
      return;
    }
    const waiting = this.#waiting.get(data.id);
    if (!waiting) {
      const known = data.id <= this.#asked && data.id > 0 ? "is answered already" : "was never asked";
      throw new Error(`an answer to request ${data.id}, which ${known}`);
    }
    this.#waiting.delete(data.id);
    waiting.stop();
    if (data.type === "reply") waiting.resolve(data.result);
    else waiting.reject(errors.WorkerCall({ method: waiting.method, kind: data.kind, reason: data.message }));
  }

  #fail(fault: Error, cause: string): void {
    this.#fault ??= fault;
    this.#process.kill(cause);
  }

  #gone(reason: string): void {
    clearInterval(this.#pinging);
    this.#fault ??= lostError(this.#process, this.#options.command, reason);
    this.#hello.reject(this.#fault);
    for (const { reject, stop } of this.#waiting.values()) {
      stop();
      reject(this.#fault);
    }
    this.#waiting.clear();
    for (const { reject } of this.#pongs.values()) reject(this.#fault);
    this.#pongs.clear();
    if (!this.#isClosed) this.#lost.resolve(this.#fault);
  }
}

/** @throws MUSTER_ERR_WORKER_CALL for a request that is longer than a frame: the worker never hears of it. */
function requestOf(method: string, request: object): Buffer {
  try {
    return frameOf(request);
  } catch (error) {
    throw errors.WorkerCall({ method, kind: "invalid", reason: messageOf(error) });
  }
}

/** Runs at a deadline, once everything was heard that came before it: late may be this process, and not the worker. @returns Stops it. */
function atDeadline(afterMs: number, run: () => void): () => void {
  let heard: NodeJS.Immediate | null = null;
  const timer = setTimeout(() => {
    // What lies in the socket is read before.
    heard = setImmediate(run);
  }, afterMs);
  return () => {
    clearTimeout(timer);
    if (heard) clearImmediate(heard);
  };
}

interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((one, other) => {
    resolve = one;
    reject = other;
  });
  return { promise, resolve, reject };
}
