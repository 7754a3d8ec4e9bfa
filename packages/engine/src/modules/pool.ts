/**
 * Calls to a module in a process of its own. A process that ends is started again, and what was in it is tried again, so that only a call which ends
 * a process that it had for itself has no answer.
 */
import type { Logger, MusterError } from "@muster/base";
import { errors } from "../errors.ts";
import { type LifeOptions, type LiveCall, ModuleLife } from "./life.ts";
import { Part, partsOf } from "./suspects.ts";
import type { FromModule } from "./wire-schema.ts";
import { errorOf } from "./wired-error.ts";

/** Starts that fail one after the other until those who wait hear of it, with a pause between them that doubles. */
const startsMax = 3;
const startPauseMs = 200;

/** For so long nothing is started again after that. */
const restMs = 1_000;

/** Calls in a row, each of which ended a process of its own, until the module itself is taken for broken. */
const guiltyMax = 32;

/** How often those who wait hear that a process is started, or does not give way. */
const heldUpEveryMs = 1_000;

/** What calls are made with. */
export interface PoolOptions extends LifeOptions {
  /** Of one call, without the time in which another one's code did not give way. */
  readonly timeoutMs: number;
  readonly logger: Logger;
}

/** One try of a call. */
export interface Asked {
  /** For errors: whose call it is. */
  readonly what: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Hears what the module asks while it is called. */
  readonly hear?: (message: Extract<FromModule, { readonly type: "draw" | "over" }>, life: ModuleLife) => void;
  /** Errors that the module was given. */
  readonly errorOfTurn?: (turn: number) => unknown;
}

interface Waiting extends LiveCall {
  readonly reject: (error: unknown) => void;
}

/** The processes of one module, one at a time. */
export class ModulePool {
  readonly #options: PoolOptions;
  #life: ModuleLife | null = null;
  #starting: Promise<ModuleLife> | null = null;
  #newborn: ModuleLife | null = null;
  #failed: { readonly error: unknown; readonly atMs: number } | null = null;
  #asked = 0;
  #guilty = 0;
  #isClosed = false;
  /** What is tried one after the other, and what of it is tried now. */
  readonly #parts: Part[] = [];
  #current: Part | null = null;
  /** Those that wait until nothing is tried any more. */
  readonly #everybody = new Part();
  /** Where a call is tried again whose process ended. */
  readonly #suspects = new WeakMap<object, Part>();
  readonly #heldUp = new Set<() => void>();
  readonly #telling: NodeJS.Timeout;

  private constructor(options: PoolOptions) {
    this.#options = options;
    this.#telling = setInterval(() => {
      if (this.#starting !== null || this.#life?.isHeldUp) for (const run of this.#heldUp) run();
    }, heldUpEveryMs).unref();
  }

  /** Starts a process and loads the module. @throws why it can not be loaded; MUSTER_ERR_MODULE_ENDED, MUSTER_ERR_MODULE_MEMORY */
  static async open(options: PoolOptions): Promise<ModulePool> {
    const pool = new ModulePool(options);
    try {
      await pool.#living();
      return pool;
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  /** The process that is at work; `null` while there is none. */
  get pid(): number | null {
    return this.#life?.pid ?? null;
  }

  /** Calls `run` now and then while a process starts or does not give way, which takes no longer than its times allow. */
  onHeldUp(run: () => void): void {
    this.#heldUp.add(run);
  }

  /**
   * Runs what calls once with {@link call}, and again when its process ended and it is not known to be to blame.
   *
   * @throws what `run` throws; MUSTER_ERR_MODULE_ENDED, MUSTER_ERR_MODULE_MEMORY and MUSTER_ERR_MODULE_BLOCKED for a call that ended a process which it
   *   had for itself; the reason of `signal`
   */
  async use<T>(run: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let part = this.#everybody; ; ) {
      await this.#enter(part, signal);
      let next: Part | undefined;
      try {
        return await run();
      } catch (error) {
        next = this.#suspects.get(error as object);
        if (!next) throw error;
      } finally {
        this.#leave(part);
      }
      part = next;
    }
  }

  /** One try. @throws what the module throws; MUSTER_ERR_TRAJECTORY_TIMEOUT; MUSTER_ERR_MODULE_ENDED; the reason of the signal */
  async call({ what, input, signal, hear, errorOfTurn }: Asked): Promise<unknown> {
    const life = await this.#living();
    signal.throwIfAborted();
    const id = ++this.#asked;
    const { timeoutMs } = this.#options;
    const ends: (() => void)[] = [];
    let isAnswered = false;
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const leave = (): void => reject(signal.reason);
        signal.addEventListener("abort", leave, { once: true });
        ends.push(() => signal.removeEventListener("abort", leave));
        const settle = (run: () => void): void => {
          isAnswered = true;
          this.#guilty = 0;
          run();
        };
        const call: Waiting = {
          ...{ id, reject },
          hear: (message) => {
            if (message.type === "answer") settle(() => resolve(message.value));
            else if (message.type === "failed") settle(() => reject(errorOf(message.error, errorOfTurn)));
            else if (message.type !== "at") hear?.(message, life);
            else if (ends.length === 1)
              ends.push(deadlineIn(life, timeoutMs, () => reject(errors.TrajectoryTimeout({ what, timeoutMs }))));
          },
        };
        life.give(call, input);
      });
    } finally {
      for (const end of ends) end();
      // Its module has nothing to do for it any more.
      if (life.calls.delete(id) && !isAnswered) life.tell({ type: "cancel", id });
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#telling);
    await Promise.all([this.#newborn?.close(), this.#life?.close()]);
  }

  async #enter(part: Part, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (part === this.#everybody && this.#current === null && this.#parts.length === 0) return;
    this.#tryNext();
    await part.enter(AbortSignal.any([signal]));
  }

  #leave(part: Part): void {
    if (part === this.#everybody) return;
    part.size -= 1;
    if (part.size > 0) return;
    this.#current = null;
    this.#tryNext();
  }

  /** Later: whoever is to be tried again hears of it first, and enters. */
  #tryNext(): void {
    setImmediate(() => void this.#begin());
  }

  async #begin(): Promise<void> {
    if (this.#current !== null) return;
    let part = this.#parts.shift();
    while (part && !part.isWanted) part = this.#parts.shift();
    if (!part) {
      this.#everybody.begin(false);
      return;
    }
    this.#current = part;
    // Without one each of them hears why.
    const life = await this.#living().catch(() => null);
    part.begin(life?.given === 0);
    if (part.size > 0) return;
    this.#current = null;
    this.#tryNext();
  }

  /** The process that runs, or the next one. */
  async #living(): Promise<ModuleLife> {
    if (this.#isClosed) throw errors.EngineClosed({ operation: `a call to ${this.#options.path}` });
    if (this.#life) return this.#life;
    if (this.#failed && performance.now() - this.#failed.atMs < restMs) throw this.#failed.error;
    this.#starting ??= this.#start().finally(() => {
      this.#starting = null;
    });
    return await this.#starting;
  }

  async #start(): Promise<ModuleLife> {
    for (let starts = 1; ; starts++) {
      const life = new ModuleLife(this.#options);
      this.#newborn = life;
      try {
        await life.ready;
        this.#life = life;
        this.#failed = null;
        void life.ended.then((error) => this.#bury(life, error));
        return life;
      } catch (error) {
        await life.close();
        // One that says why it can not be loaded says so again.
        if (starts === startsMax || this.#isClosed || life.hasRefused) {
          this.#failed = { error, atMs: performance.now() };
          throw error;
        }
        await pause(startPauseMs * 2 ** (starts - 1));
      } finally {
        this.#newborn = null;
      }
    }
  }

  #bury(life: ModuleLife, error: MusterError): void {
    this.#life = null;
    const calls = [...life.calls.values()] as Waiting[];
    life.calls.clear();
    if (this.#isClosed) {
      for (const { reject } of calls) reject(error);
      return;
    }
    const isBlamed = calls.length === 1 && this.#current?.size === 1 && this.#current.isFresh;
    if (isBlamed) this.#guilty += 1;
    this.#options.logger.warn(
      { reason: error.message, calls: calls.length, again: isBlamed ? 0 : calls.length },
      "the process of a module ended",
    );
    if (isBlamed || this.#guilty >= guiltyMax) {
      for (const { reject } of calls) reject(error);
      return;
    }
    this.#tryAgain(calls, life.at, error);
  }

  #tryAgain(calls: readonly Waiting[], at: number, error: MusterError): void {
    const ids = calls.map(({ id }) => id);
    const parts = partsOf(ids, { at, hasLeft: at > 0 && !ids.includes(at) });
    for (const ended of parts.toReversed()) {
      const part = new Part();
      this.#parts.unshift(part);
      for (const { id, reject } of calls) {
        if (!ended.includes(id)) continue;
        const own = errors.ModuleEnded(error.params, error);
        this.#suspects.set(own, part);
        reject(own);
      }
    }
    this.#tryNext();
  }
}

/** Runs `late` once a call has had its time, without that in which its process did not give way. @returns Stops it. */
function deadlineIn(life: ModuleLife, timeoutMs: number, late: () => void): () => void {
  const [startedMs, heldUpMs] = [performance.now(), life.heldUp()];
  let timer: NodeJS.Timeout;
  let heard: NodeJS.Immediate | null = null;
  const look = (): void => {
    const leftMs = timeoutMs - (performance.now() - startedMs) + (life.heldUp() - heldUpMs);
    if (leftMs <= 1) late();
    else wait(Math.max(leftMs, 50));
  };
  const wait = (afterMs: number): void => {
    timer = setTimeout(() => {
      // What lies in the socket is read before.
      heard = setImmediate(look);
    }, afterMs);
  };
  wait(timeoutMs);
  return () => {
    clearTimeout(timer);
    if (heard) clearImmediate(heard);
  };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));
