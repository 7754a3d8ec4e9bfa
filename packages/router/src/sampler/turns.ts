/** Requests that come at about the same time go to the engine in one call, because an engine is much faster at many responses than at one. */
import type { Generated } from "@muster/base";
import { Refused } from "../core/reply.ts";
import type { SamplerEngine, SamplerRequest } from "./sampler-engine.ts";

interface Waiting {
  readonly request: SamplerRequest;
  readonly resolve: (responses: readonly Generated[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests that may wait for the call that runs. */
const waitingMax = 256;
const batchMax = 64;

/** The turns of one engine. */
export class Turns {
  readonly #engine: SamplerEngine;
  readonly #signal: AbortSignal;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(engine: SamplerEngine, signal: AbortSignal) {
    this.#engine = engine;
    this.#signal = signal;
  }

  /** @throws what the engine throws; Refused with 429 when too many wait. */
  ask(request: SamplerRequest, signal: AbortSignal): Promise<readonly Generated[]> {
    if (this.#waiting.length >= waitingMax)
      return Promise.reject(
        new Refused({ status: 429, code: "queue_full", message: `${waitingMax} requests wait already`, retryAfter: 1 }),
      );
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const isWaiting = this.#waiting.some((one) => one.request === request);
        this.#waiting = this.#waiting.filter((one) => one.request !== request);
        if (isWaiting) reject(new Error("the client has gone"));
        else this.#engine.abort([request.requestId]).catch(reject);
      };
      signal.addEventListener("abort", leave, { once: true });
      const settled =
        <T>(then: (value: T) => void) =>
        (value: T): void => {
          signal.removeEventListener("abort", leave);
          then(value);
        };
      this.#waiting.push({ request, resolve: settled(resolve), reject: settled(reject) });
      setImmediate(() => void this.#flush());
    });
  }

  async #flush(): Promise<void> {
    if (this.#isRunning || this.#waiting.length === 0) return;
    this.#isRunning = true;
    const batch = this.#waiting.splice(0, batchMax);
    await this.#run(batch);
    this.#isRunning = false;
    void this.#flush();
  }

  /** A request that the engine refuses is asked for alone, so that it fails nobody else's. */
  async #run(batch: readonly Waiting[]): Promise<void> {
    try {
      const rows = await this.#engine.generate(
        batch.map(({ request }) => request),
        this.#signal,
      );
      batch.forEach(({ resolve }, i) => {
        resolve(rows[i] ?? []);
      });
    } catch (error) {
      if (batch.length === 1 || this.#signal.aborted) for (const { reject } of batch) reject(error);
      else for (const one of batch) await this.#run([one]);
    }
  }
}
