/**
 * The engine shared by samples that generate by themselves. Turns that are asked for at about the same time go to the engine in one
 * call, because an engine is much faster at many responses than at one. A failure of the engine is nobody's sample's: it is marked.
 */

import { type EngineHandle, hasCode, mixSeed, type TurnRequest } from "@muster/base";
import type { Generated, GenerateRequest, RolloutEngine, SamplingOptions } from "../engine.ts";
import { errors } from "../errors.ts";

/** Which sample asks. */
export interface SampleKey {
  readonly requestId: string;
  readonly seed: number;
  readonly sample: number;
  readonly sampling: SamplingOptions;
  /** Aborted when the sample is settled. */
  readonly signal: AbortSignal;
}

interface Waiting {
  readonly request: GenerateRequest;
  readonly resolve: (generated: Generated) => void;
  readonly reject: (error: unknown) => void;
}

/** Errors that are the request's own. */
const requestCodes = ["MUSTER_ERR_ENGINE_REQUEST_INVALID", "MUSTER_ERR_ENGINE_OPTION_UNSUPPORTED"];

/** How often a turn that may be over early is looked at. */
const lookMs = 20;

/** One engine for the samples of one call. */
export class SharedEngine {
  readonly #engine: RolloutEngine;
  readonly #signal: AbortSignal;
  readonly #faults = new WeakSet<object>();
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(engine: RolloutEngine, signal: AbortSignal) {
    this.#engine = engine;
    this.#signal = signal;
  }

  /** The handle of one sample, and the oldest version that it drew from; `null` while it drew nothing. */
  handleOf(key: SampleKey): { readonly handle: EngineHandle; readonly oldest: () => number | null } {
    let turns = 0;
    let oldest: number | null = null;
    const generate = async (turn: TurnRequest): Promise<Generated> => {
      const generated = await this.#ask(key, turn, turns++);
      oldest = Math.min(oldest ?? generated.versionAtStart, generated.versionAtStart);
      return generated;
    };
    return { handle: { info: () => this.#engine.info(), generate }, oldest: () => oldest };
  }

  /** True when the engine failed, whatever a module made of the error. */
  isFault(error: unknown): boolean {
    let at = error;
    for (let depth = 0; at instanceof Error && depth < 8; depth++) {
      if (this.#faults.has(at)) return true;
      at = at.cause;
    }
    return false;
  }

  async #ask(
    { requestId, seed, sample, sampling, signal }: SampleKey,
    turn: TurnRequest,
    at: number,
  ): Promise<Generated> {
    if (signal.aborted) throw errors.SampleSettled({ requestId });
    const request: GenerateRequest = {
      requestId: `${requestId}.${at}`,
      promptIds: Int32Array.from(turn.promptIds),
      n: 1,
      from: sample,
      sampling: { ...sampling, ...turn.sampling },
      seed: turn.seed === undefined && at === 0 ? seed : mixSeed(seed, turn.seed ?? at),
    };
    const stop = (): void => void this.#engine.abort([request.requestId]);
    signal.addEventListener("abort", stop, { once: true });
    let isOver = false;
    const look = (): void => {
      const [soFar] = isOver ? [] : (this.#engine.drawn?.(request.requestId) ?? []);
      if (soFar?.finish !== "abort" || turn.isOver?.(soFar) !== true) return;
      isOver = true;
      stop();
    };
    const looking = turn.isOver ? setInterval(look, lookMs).unref() : undefined;
    try {
      const generated = await new Promise<Generated>((resolve, reject) => {
        this.#waiting.push({ request, resolve, reject });
        setImmediate(() => this.#flush());
      });
      if (generated.finish === "abort" && !isOver) throw errors.TrajectoryAborted();
      return generated;
    } finally {
      clearInterval(looking);
      signal.removeEventListener("abort", stop);
    }
  }

  /** One call at a time: what is asked for meanwhile goes together in the next one. */
  async #flush(): Promise<void> {
    if (this.#isRunning || this.#waiting.length === 0) return;
    this.#isRunning = true;
    const batch = this.#waiting;
    this.#waiting = [];
    await this.#run(batch);
    this.#isRunning = false;
    void this.#flush();
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    try {
      const rows = await this.#engine.generate(
        batch.map(({ request }) => request),
        this.#signal,
      );
      batch.forEach(({ resolve, reject }, i) => {
        const generated = rows[i]?.[0];
        if (generated) resolve(generated);
        else reject(errors.TrajectoryInvalid({ from: "the engine", reason: "it is missing" }));
      });
    } catch (error) {
      const isRequest = requestCodes.some((code) => hasCode(error, code));
      // A request that the engine refuses must not fail those that were sent with it.
      if (isRequest && batch.length > 1) for (const one of batch) await this.#run([one]);
      else this.#fail(batch, error, isRequest);
    }
  }

  #fail(batch: readonly Waiting[], error: unknown, isRequest: boolean): void {
    if (!isRequest && typeof error === "object" && error !== null) this.#faults.add(error);
    for (const { reject } of batch) reject(error);
  }
}
