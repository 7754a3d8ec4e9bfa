/**
 * The engine shared by samples that generate by themselves. Turns that are asked for at about the same time go to the engine in one
 * call, because an engine is much faster at many responses than at one. A turn that is kept from an earlier try is answered without the engine. A failure of
 * the engine is nobody's sample's: it is marked.
 */

import { type EngineHandle, hasCode, type Logger, mixSeed, silentLogger, type TurnRequest } from "@muster/base";
import type { Generated, GenerateRequest, RolloutEngine, SamplingOptions } from "../engine.ts";
import { errors } from "../errors.ts";
import { answerOf, digestOfRequest, type KeptTurns } from "./kept-turns.ts";

/** Which sample asks. */
export interface SampleKey {
  readonly requestId: string;
  readonly seed: number;
  readonly sample: number;
  readonly sampling: SamplingOptions;
  /** Of the sample's group. */
  readonly turns: KeptTurns;
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
  readonly #logger: Logger;
  readonly #faults = new WeakSet<object>();
  /** Keep what is drawn by now of each turn in flight. */
  readonly #drawing = new Set<() => void>();
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(engine: RolloutEngine, signal: AbortSignal, logger: Logger = silentLogger) {
    this.#engine = engine;
    this.#signal = signal;
    this.#logger = logger;
  }

  /** Keeps what is drawn by now of turns in flight, for engines that can go on with it. */
  keepDrawn(): void {
    for (const keep of this.#drawing) keep();
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

  async #ask(key: SampleKey, turn: TurnRequest, at: number): Promise<Generated> {
    const { requestId, seed, sample, sampling, signal, turns } = key;
    if (signal.aborted) throw errors.SampleSettled({ requestId });
    const asked: GenerateRequest = {
      requestId: `${requestId}.${at}`,
      promptIds: Int32Array.from(turn.promptIds),
      n: 1,
      from: sample,
      sampling: { ...sampling, ...turn.sampling },
      seed: turn.seed === undefined && at === 0 ? seed : mixSeed(seed, turn.seed ?? at),
    };
    const question = { sample, at, request: digestOfRequest(asked) };
    const found = turns.find(question);
    if (found === "differs")
      this.#logger.warn(
        { requestId, turn: at },
        "a sample asks something else than before it was interrupted; it goes on anew from this turn",
      );
    const kept = found === "differs" || found === null ? undefined : found;
    const answer = kept && answerOf(kept, this.#engine.weightVersion() ?? 0);
    if (kept && answer && (kept.finish !== null || turn.isOver?.(answer) === true)) return answer;
    const resumed = this.#engine.info().resumes ? kept : undefined;
    const keep = (generated: Generated): void => turns.keep(question, generated, resumed);
    const generated = await this.#draw(resumed ? { ...asked, begun: [resumed] } : asked, turn, { signal, keep });
    return { ...generated, versionAtStart: resumed?.segments[0]?.version ?? generated.versionAtStart };
  }

  /** Draws a turn, and keeps it when it is whole, or what there is of it when its engine can go on with that. */
  async #draw(
    request: GenerateRequest,
    turn: TurnRequest,
    { signal, keep }: { readonly signal: AbortSignal; readonly keep: (generated: Generated) => void },
  ): Promise<Generated> {
    const soFar = (): Generated | undefined => this.#engine.drawn?.(request.requestId)?.[0];
    const keepSoFar = (): void => {
      const drawn = this.#engine.info().resumes ? soFar() : undefined;
      if (drawn) keep(drawn);
    };
    const stop = (): void => void this.#engine.abort([request.requestId]);
    signal.addEventListener("abort", stop, { once: true });
    this.#drawing.add(keepSoFar);
    let isOver = false;
    const look = (): void => {
      const drawn = isOver ? undefined : soFar();
      if (drawn?.finish !== "abort" || turn.isOver?.(drawn) !== true) return;
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
      keep(generated);
      return generated;
    } finally {
      clearInterval(looking);
      this.#drawing.delete(keepSoFar);
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
