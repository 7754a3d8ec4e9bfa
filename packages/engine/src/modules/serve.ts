/** The work of a module's process: calls by number, one after the other begun, each in a boundary of its own. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Socket } from "node:net";
import { type Logger, silentLogger } from "@muster/base";
import { TrajectoryScopes } from "../collect/trajectory-scope.ts";
import { FrameReader, frameOf } from "../worker/frames.ts";
import { type Callee, type CallTools, openCallee } from "./callee.ts";
import { moduleFrameMax, type ToModule } from "./wire.ts";
import { wiredError } from "./wired-error.ts";

type Told<T extends ToModule["type"]> = Extract<ToModule, { readonly type: T }>;

interface Call {
  readonly stop: AbortController;
  /** Hears of a turn that it asked for. */
  hear: (message: Told<"drawn" | "soFar" | "undrawn">) => void;
}

/** Hears what is to be called, and says what came of it. */
export class ModuleService {
  readonly #socket: Socket;
  readonly #frames = new FrameReader(moduleFrameMax);
  readonly #told: ToModule[] = [];
  readonly #calls = new Map<number, Call>();
  readonly #whose = new AsyncLocalStorage<number>();
  readonly #turns = new WeakMap<object, number>();
  #callee: Callee | null = null;
  #isBusy = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  hear(bytes: Buffer): void {
    this.#told.push(...(this.#frames.take(bytes) as ToModule[]));
    if (!this.#isBusy) void this.#work();
  }

  /** Says whose code runs now, where that is known: it is written at once. */
  sayWho(): void {
    const id = this.#whose.getStore();
    if (id !== undefined) this.#say({ type: "at", id });
  }

  /** One message at a time: code that goes on because of one has run before the next one is looked at, so `at` says whose it is. */
  async #work(): Promise<void> {
    this.#isBusy = true;
    for (let told = this.#told.shift(); told; told = this.#told.shift()) {
      await this.#take(told);
      await new Promise((resolve) => void setImmediate(resolve));
    }
    this.#isBusy = false;
  }

  async #take(told: ToModule): Promise<void> {
    switch (told.type) {
      case "open":
        await this.#open(told);
        return;
      case "call":
        this.#begin(told);
        return;
      case "cancel":
        this.#calls.get(told.id)?.stop.abort(new Error("nobody waits for this call any more"));
        return;
      case "ping":
        this.#say({ type: "pong" });
        return;
      default: {
        const call = this.#calls.get(told.id);
        if (!call) return;
        this.#say({ type: "at", id: told.id });
        call.hear(told);
      }
    }
  }

  async #open(told: Told<"open">): Promise<void> {
    try {
      this.#callee = await openCallee(told);
      this.#say({ type: "ready" });
    } catch (error) {
      this.#say({ type: "refused", error: wiredError(error) });
    }
  }

  #begin({ id, input }: Told<"call">): void {
    const stop = new AbortController();
    const call: Call = { stop, hear: () => {} };
    const scopes = new TrajectoryScopes({ clock: noDeadlines, logger: errorLogger, signal: stop.signal });
    const tools: CallTools = {
      signal: stop.signal,
      listen: (hear) => {
        call.hear = hear;
      },
      draw: (turn, request) => this.#say({ type: "draw", id, turn, request }),
      over: (turn) => this.#say({ type: "over", id, turn }),
      isOf: (error, turn) => void this.#turns.set(error, turn),
    };
    this.#calls.set(id, call);
    this.#say({ type: "at", id });
    this.#whose.run(id, () => {
      const options = { what: `call ${id}`, timeoutMs: null };
      scopes
        .run(options, async (signal) => await this.#callee?.({ ...tools, signal }, input))
        .then((value) => this.#say({ type: "answer", id, value }))
        .catch((error: unknown) => {
          const failure = { type: "failed", id, error: wiredError(error, (part) => this.#turns.get(part)) };
          if (!stop.signal.aborted) this.#say(failure);
        })
        .finally(() => {
          this.#calls.delete(id);
          scopes.close();
          stop.abort(new Error("this call is over"));
        });
    });
  }

  #say(message: object): void {
    this.#socket.write(frameOf(message, moduleFrameMax));
  }
}

/** The sampler sees to deadlines. */
const noDeadlines = { now: () => performance.now(), after: () => () => {} };

const line = (fields: object, message: string): void =>
  void process.stderr.write(`${message}: ${JSON.stringify(fields)}\n`);

/** What is said here is in the sampler's log. */
const errorLogger: Logger = { ...silentLogger, warn: line, error: line };
