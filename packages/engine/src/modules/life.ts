/** One life of a module's process: started, told what to call, listened to, and ended when it is heard of no more. */
import type { MusterError } from "@muster/base";
import { errors } from "../errors.ts";
import type { WorkerCommand } from "../programs/command.ts";
import { FrameReader, frameOf } from "../worker/frames.ts";
import { faultOf } from "../worker/messages.ts";
import { WorkerProcess } from "../worker/worker-process.ts";
import { moduleFrameMax, type ToModule } from "./wire.ts";
import { type FromModule, fromModule } from "./wire-schema.ts";
import { errorOf } from "./wired-error.ts";

/** How often a process at work is asked whether it listens. */
const pingEveryMs = 250;

/** A silence that is longer is time in which its code did not give way. */
const heldUpMs = 500;

/** What a life is begun with. */
export interface LifeOptions {
  readonly path: string;
  readonly command: WorkerCommand;
  /** Of all its processes, in bytes; 0 for no limit. */
  readonly memoryMax: number;
  /** From its start until the module is loaded. */
  readonly startMs: number;
  /** Its code may go on for so long without giving way. */
  readonly blockedMs: number;
  readonly open: ToModule;
}

/** A call that is under way in a life. */
export interface LiveCall {
  readonly id: number;
  /** Hears what its module says of it. @throws what is wrong with that, as the end of a sentence */
  hear(message: Extract<FromModule, { readonly id: number }>): void;
}

/** A running process. */
export class ModuleLife {
  /** Settles when the module is loaded. Rejects with why it can not be, or with why the process is gone. */
  readonly ready: Promise<void>;
  /** Settles, and never rejects, with the cause when the process is gone with all that it started. */
  readonly ended: Promise<MusterError>;
  /** Whose code it goes on with, as it said last; 0 before it said anything. */
  at = 0;
  /** It said that the module can not be loaded. */
  hasRefused = false;
  /** Calls that it was given so far. */
  given = 0;
  readonly calls = new Map<number, LiveCall>();
  readonly #options: LifeOptions;
  readonly #process: WorkerProcess;
  readonly #frames = new FrameReader(moduleFrameMax);
  readonly #watching: NodeJS.Timeout;
  #settleReady: { readonly resolve: () => void; readonly reject: (error: unknown) => void } | null = null;
  /** When it was asked whether it listens, or heard of after that; `null` when it is not asked. */
  #waitingSinceMs: number | null = null;
  #heldUpMs = 0;
  #wasBlocked = false;

  constructor(options: LifeOptions) {
    this.#options = options;
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    this.ready.catch(() => {});
    this.#process = new WorkerProcess(options);
    this.#process.socket.on("data", (bytes: Buffer) => this.#hear(bytes));
    const late = setTimeout(
      () => this.#process.kill(`it was not loaded within ${options.startMs} ms`),
      options.startMs,
    ).unref();
    void this.ready.finally(() => clearTimeout(late)).catch(() => {});
    this.#watching = setInterval(() => this.#watch(), pingEveryMs).unref();
    this.ended = this.#process.ended.then((reason) => this.#end(reason));
    this.tell(options.open);
  }

  /** Its process. */
  get pid(): number {
    return this.#process.pid;
  }

  /** Time in which its code has not given way so far, in ms: nobody else's time. */
  heldUp(): number {
    const now = this.#silentMs();
    return this.#heldUpMs + (now > heldUpMs ? now : 0);
  }

  /** True while its code does not give way. */
  get isHeldUp(): boolean {
    return this.#silentMs() > heldUpMs;
  }

  /** Gives it a call. @throws Error for one that is too long for a frame */
  give(call: LiveCall, input: Readonly<Record<string, unknown>>): void {
    this.tell({ type: "call", id: call.id, input });
    this.given += 1;
    this.calls.set(call.id, call);
  }

  /** @throws Error for a message that is too long for a frame */
  tell(message: ToModule): void {
    this.#process.socket.write(frameOf(message, moduleFrameMax));
  }

  /** Ends it. The first cause is the one that counts. */
  kill(cause: string): void {
    this.#process.kill(cause);
  }

  /** Lets it end. Harmless twice. */
  async close(): Promise<void> {
    await this.#process.close();
    await this.ended;
  }

  #hear(bytes: Buffer): void {
    const silentMs = this.#silentMs();
    if (silentMs > heldUpMs) this.#heldUpMs += silentMs;
    if (this.#waitingSinceMs !== null) this.#waitingSinceMs = performance.now();
    try {
      for (const message of this.#frames.take(bytes)) this.#take(message);
    } catch (error) {
      this.kill(
        `its process sent ${error instanceof Error ? error.message : String(error)}; is something else written there?`,
      );
    }
  }

  #take(message: object): void {
    const { data, error } = fromModule.safeParse(message);
    if (!data) throw new Error(`a message that is wrong in ${faultOf(error)}`);
    switch (data.type) {
      case "ready":
        this.#settleReady?.resolve();
        return;
      case "refused":
        this.hasRefused = true;
        this.#settleReady?.reject(errorOf(data.error));
        return;
      case "pong":
        this.#waitingSinceMs = null;
        return;
      default:
        if (data.type === "at") this.at = data.id;
        // Of a call that is over nobody wants to know more.
        this.calls.get(data.id)?.hear(data);
    }
  }

  #watch(): void {
    // What lies in the socket is read before: late may be this process, and not that one.
    setImmediate(() => {
      if (this.calls.size === 0) {
        this.#waitingSinceMs = null;
        return;
      }
      if (this.#waitingSinceMs === null) {
        this.#waitingSinceMs = performance.now();
        this.tell({ type: "ping" });
        return;
      }
      const { blockedMs } = this.#options;
      if (this.#silentMs() <= blockedMs) return;
      this.#wasBlocked = true;
      this.kill("its code does not give way");
    });
  }

  #silentMs(): number {
    return this.#waitingSinceMs === null ? 0 : performance.now() - this.#waitingSinceMs;
  }

  #end(reason: string): MusterError {
    clearInterval(this.#watching);
    const { path, blockedMs } = this.#options;
    const given = { path, blockedMs, reason, words: this.#process.lastWords() };
    const late = errors.TrajectoryTimeout({ what: "its code", timeoutMs: blockedMs });
    // Each is a root cause of its own.
    const error = this.#wasBlocked
      ? errors.ModuleBlocked(given, late)
      : this.#process.isOutOfMemory
        ? errors.ModuleMemory(given)
        : errors.ModuleEnded(given);
    this.#settleReady?.reject(error);
    return error;
  }
}
