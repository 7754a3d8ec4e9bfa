/**
 * The processes of a run: started, watched, started again when they die, and never left behind. A child lives only as long as its
 * standard input is open, so it ends even when this process is killed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Clock, Logger } from "@muster/base";
import { ErrorFiles, exitCodes, lastWordsOf } from "@muster/runtime";

/** How a child ended. */
export interface ChildExit {
  readonly id: string;
  readonly pid: number;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What it said last; absent when that is nothing. */
  readonly words?: string;
}

/** What to run. */
export interface ChildSpec {
  readonly id: string;
  /** Arguments of `muster`. */
  readonly args: readonly string[];
  /** Arguments of the next life, where they depend on how the last one ended. */
  readonly again?: (exit: ChildExit) => Promise<readonly string[]>;
}

/** The processes of a run. */
export interface Children {
  start(spec: ChildSpec): void;
  /**
   * Ends all: SIGTERM, after `graceMs` once more, which makes a node end its replicas at once and then itself, and then SIGKILL. Nothing is
   * started again afterwards.
   */
  stop(graceMs: number): Promise<void>;
  /** No process is started again from now on; those that run may go on. */
  release(): void;
  /** Asks a process to leave; harmless when it is gone. */
  ask(id: string): void;
  /** Ids of the processes that run. */
  running(): readonly string[];
}

const restartsMax = 5;
/** A life of this length was well: its end is a new misfortune and not one more of a row. */
const goodLifeMs = 10_000;
const replacedPauseMs = 2_000;
/** What a process needs that is told twice. */
const hasteMs = 1_000;

/** What a supervision is made from. */
export interface SupervisionOptions {
  /** Folder of the run; logs go into its `logs`. */
  readonly directory: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** An exit that the run did not ask for. */
  readonly onExit: (exit: ChildExit) => void;
  /** A process that keeps ending is not started again. */
  readonly onGivenUp: (exit: ChildExit) => void;
}

/**
 * Starts the supervision. A process that ended without being asked is started again after 1, 2, 4 … s. One that another process
 * replaced did not fail: it stands by for as long as it takes.
 */
export function superviseChildren(options: SupervisionOptions): Children {
  return new Supervision(options);
}

/** The file of a process's standard error, and where its own words begin. */
interface LogPart {
  readonly path: string;
  readonly from: number;
}

class Supervision implements Children {
  readonly #options: SupervisionOptions;
  readonly #running = new Map<string, ChildProcess>();
  readonly #startedMs = new Map<string, number>();
  /** Short lives in a row. */
  readonly #rows = new Map<string, number>();
  readonly #pauses = new Set<() => void>();
  readonly #errorFiles: ErrorFiles;
  #isReleased = false;
  #wake: () => void = () => {};

  constructor(options: SupervisionOptions) {
    this.#options = options;
    this.#errorFiles = new ErrorFiles(options);
  }

  start(spec: ChildSpec): void {
    const { logger } = this.#options;
    const path = this.#errorFile(spec.id);
    const log = openSync(path, "a", 0o600);
    const part = { path, from: fstatSync(log).size };
    this.#errorFiles.add(path, (leftBytes) => {
      part.from = leftBytes;
    });
    const child = spawn(process.execPath, [musterPath(), ...spec.args], { stdio: ["pipe", "ignore", log] });
    closeSync(log);
    this.#running.set(spec.id, child);
    this.#startedMs.set(spec.id, this.#options.clock.now());
    // A child that is gone closes the pipe; its exit says all there is to say.
    child.stdin?.on("error", () => {});
    child.once("error", (error) => {
      logger.error({ id: spec.id, error }, "process could not be started");
      if (child.pid === undefined) this.#exited(spec, part, { id: spec.id, pid: 0, code: null, signal: null });
    });
    child.once("exit", (code, signal) => this.#exited(spec, part, { id: spec.id, pid: child.pid ?? 0, code, signal }));
  }

  release(): void {
    this.#isReleased = true;
    for (const cancel of this.#pauses) cancel();
  }

  ask(id: string): void {
    this.#running.get(id)?.kill("SIGTERM");
  }

  running(): readonly string[] {
    return [...this.#running.keys()];
  }

  async stop(graceMs: number): Promise<void> {
    this.release();
    this.#signal("SIGTERM");
    const { clock } = this.#options;
    const cancelHaste = clock.after(graceMs, () => this.#signal("SIGTERM"));
    const cancelKill = clock.after(graceMs + hasteMs, () => this.#signal("SIGKILL"));
    while (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    cancelHaste();
    cancelKill();
  }

  #errorFile(id: string): string {
    return join(this.#options.directory, "logs", `${id}.err`);
  }

  #exited(spec: ChildSpec, log: LogPart, ended: Omit<ChildExit, "words">): void {
    this.#running.delete(spec.id);
    const words = lastWordsOf(ended, log);
    const exit = { ...ended, ...words };
    this.#errorFiles.remove(log.path);
    this.#wake();
    if (this.#isReleased) return;
    this.#options.onExit(exit);
    if (exit.code === 0) return;
    const next = spec.again?.(exit) ?? Promise.resolve(spec.args);
    void next.then((args) => {
      if (exit.code === exitCodes.temporary) this.#startAfter(replacedPauseMs, { ...spec, args });
      else this.#restart({ ...spec, args }, exit);
    });
  }

  #restart(spec: ChildSpec, exit: ChildExit): void {
    const { clock, onGivenUp } = this.#options;
    const lifeMs = clock.now() - (this.#startedMs.get(spec.id) ?? 0);
    const row = lifeMs < goodLifeMs ? (this.#rows.get(spec.id) ?? 0) + 1 : 0;
    this.#rows.set(spec.id, row);
    if (row > restartsMax) onGivenUp(exit);
    else this.#startAfter(row <= 1 ? 250 : 1_000 * 2 ** (row - 2), spec);
  }

  #startAfter(pauseMs: number, spec: ChildSpec): void {
    const cancel = this.#options.clock.after(pauseMs, () => {
      this.#pauses.delete(cancel);
      if (!this.#isReleased) this.start(spec);
    });
    this.#pauses.add(cancel);
  }

  #signal(signal: NodeJS.Signals): void {
    for (const child of this.#running.values()) child.kill(signal);
  }
}

/** The program itself, to be run again. */
export function musterPath(): string {
  return fileURLToPath(new URL("../../bin/muster.mjs", import.meta.url));
}
