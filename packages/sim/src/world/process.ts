/**
 * A simulated process: a gate through which everything enters that comes from outside (turns of the loop, timers, deliveries, answers).
 * Behind the gate runs production code. A dead process is entered no more; a paused one is entered late, in the order of arrival.
 */
import type { Clock } from "@muster/base";
import type { World } from "./world.ts";

/** `hung`: the main thread stands still, the thread of the heartbeats does not. */
export type ProcessState = "running" | "paused" | "hung" | "dead";

/** What makes one process unlike another. */
export interface ProcessOptions {
  /** `<node>#<life>`, unique. */
  readonly name: string;
  readonly node: string;
  readonly role: string;
  readonly pid: number;
  /** Where it runs; default one of three hosts, dealt in turn. */
  readonly host?: string | undefined;
  /** Node that started it; default none. */
  readonly parent?: string;
  /** Its monotonic clock: an origin of its own, and a rate near 1. */
  readonly clockOffsetMs: number;
  readonly clockRate: number;
}

/** One life of one process. */
export class SimProcess {
  readonly name: string;
  readonly node: string;
  readonly role: string;
  readonly pid: number;
  readonly host: string;
  readonly parent: string | null;
  readonly clock: Clock;
  readonly world: World;
  /** How its end looks to whoever started it, unless it has come to its own end. */
  signal: "SIGKILL" | "SIGSEGV" = "SIGKILL";
  /** How many times longer its work takes than usual. */
  slowdown = 1;
  /** How far its wall clock is off. */
  wallOffsetMs = 0;
  readonly #held: (() => void)[] = [];
  readonly #onDeath: (() => void)[] = [];
  readonly #onEnd: (() => void)[] = [];
  #state: ProcessState = "running";
  /** Its main thread is in an endless loop: nothing but its end ends that. */
  #isStuck = false;
  /** Time that its monotonic clock did not count: the host was suspended. */
  #lostMs = 0;
  #suspendedAtMs: number | null = null;

  constructor(world: World, options: ProcessOptions) {
    this.world = world;
    this.name = options.name;
    this.node = options.node;
    this.role = options.role;
    this.pid = options.pid;
    this.host = options.host ?? `host-${options.pid % 3}`;
    this.parent = options.parent ?? null;
    const { clockOffsetMs, clockRate } = options;
    this.clock = {
      now: () => clockOffsetMs + ((this.#suspendedAtMs ?? world.nowMs) - this.#lostMs) * clockRate,
      after: (delayMs, run) => this.after(delayMs / clockRate, run),
    };
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** True once its main thread is in an endless loop. */
  get isStuck(): boolean {
    return this.#isStuck;
  }

  get isDead(): boolean {
    return this.#state === "dead";
  }

  /** Lets something in, now or when the process runs again; never once it is dead. */
  enter(run: () => void): void {
    if (this.#state === "running") run();
    else if (this.#state !== "dead") this.#held.push(run);
  }

  /** Lets something in after a time of its host. @returns Cancels it, also while it is held. */
  after(delayMs: number, run: () => void): () => void {
    let cancelled = false;
    let countedMs = this.#lostMs;
    const due = (): void => {
      if (cancelled) return;
      const leftMs = this.#lostMs - countedMs;
      countedMs = this.#lostMs;
      if (leftMs > 0) cancel = this.world.after(leftMs, arrive);
      else run();
    };
    const arrive = (): void => this.enter(due);
    let cancel = this.world.after(delayMs, arrive);
    return () => {
      cancelled = true;
      cancel();
    };
  }

  /** Runs a turn of an actor's loop after whatever is due now. */
  readonly schedule = (turn: () => void): void => {
    this.after(0, turn);
  };

  /** Ends it as SIGKILL does: at once, whatever it is doing. */
  kill(): void {
    if (this.#state === "dead") return;
    this.#state = "dead";
    this.#held.length = 0;
    for (const run of this.#onDeath) run();
  }

  /** Ends it by itself: what it does last is done. */
  end(): void {
    if (this.#state === "dead") return;
    for (const run of this.#onEnd.splice(0)) run();
    this.kill();
  }

  /** Calls back before it ends by itself; never when it is killed. */
  onEnd(run: () => void): void {
    this.#onEnd.push(run);
  }

  /** Stops it as SIGSTOP does, or only its main thread. */
  freeze(how: "paused" | "hung"): void {
    if (this.#state === "running") this.#state = how;
  }

  /** Its main thread enters an endless loop: it stands still until the process is ended. */
  stick(): void {
    if (this.#state !== "running") return;
    this.#state = "hung";
    this.#isStuck = true;
  }

  /** Stops it with its host: its monotonic clock stops too, so no timer of it is due earlier than that much later. */
  suspend(): void {
    if (this.#state !== "running") return;
    this.#state = "paused";
    this.#suspendedAtMs = this.world.nowMs;
  }

  /** Goes on; what arrived meanwhile comes in first. */
  thaw(): void {
    if (this.#isStuck || (this.#state !== "paused" && this.#state !== "hung")) return;
    if (this.#suspendedAtMs !== null) this.#lostMs += this.world.nowMs - this.#suspendedAtMs;
    this.#suspendedAtMs = null;
    this.#state = "running";
    for (const run of this.#held.splice(0)) this.after(0, run);
  }

  /** Calls back when it dies; at once when it is dead. */
  onDeath(run: () => void): void {
    if (this.isDead) run();
    else this.#onDeath.push(run);
  }

  /** Does work in the process that usually takes `usualMs`; rejects when the signal aborts first. Never settles once dead. */
  sleep(usualMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(usualMs * this.slowdown, () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      });
      if (signal?.aborted) stop();
      else signal?.addEventListener("abort", stop, { once: true });
    });
  }
}
