/** One life of a worker: started, watched, ended with all that it started. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable } from "node:stream";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { BoundedEcho } from "../programs/bounded-echo.ts";
import { guarded, type WorkerCommand } from "../programs/command.ts";
import { memoryOf } from "../programs/proc.ts";
import { endMarked, ProcessMark } from "../programs/process-mark.ts";

/** What a worker said last on its standard error, in characters. */
const wordsMax = 2_000;

/** Time to end by itself once its socket has ended. */
const endMs = 2_000;

/** How often its memory is looked at. */
const memoryEveryMs = 500;

/** The file descriptor of the socket in a worker. */
const socketFd = 3;

/** What watches a life. */
export interface ProcessOptions {
  readonly command: WorkerCommand;
  /** Anonymous memory of all its processes, in bytes; 0 for no limit. */
  readonly memoryMax: number;
}

/** A running worker. */
export class WorkerProcess {
  readonly socket: Duplex;
  /** Settles, and never rejects, with why the process is gone, once all that it started is gone, too. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #mark = new ProcessMark();
  readonly #watch: NodeJS.Timeout | null = null;
  readonly #echo = new BoundedEcho((text) => void process.stderr.write(text));
  #words = "";
  /** The line with which its runtime gave up; a long stack may follow it. */
  #fatal = "";
  #cause: string | null = null;
  #hasGrown = false;

  /** @throws MUSTER_ERR_WORKER_LOST when there is no such program. */
  constructor({ command, memoryMax }: ProcessOptions) {
    const [program = "", ...args] = guarded(this.#mark.words(command.words));
    const env = {
      ...command.env,
      MUSTER_WORKER_IN: String(socketFd),
      MUSTER_WORKER_OUT: String(socketFd),
      ...this.#mark.env,
    };
    // Its standard output is a log, too: libraries write there what they like.
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      ...(command.directory === undefined ? {} : { cwd: command.directory }),
      env,
    });
    this.#child = child;
    this.socket = child.stdio[socketFd] as Duplex;
    // Of a broken socket the end of the process says more.
    this.socket.on("error", () => {});
    for (const stream of [child.stdout, child.stderr]) this.#hear(stream as Readable);
    this.ended = new Promise((resolve) => {
      child.once("error", (error) => resolve(this.#endedBy(messageOf(error))));
      child.once("exit", (code, signal) => {
        // What it wrote last may still be in the pipe, and what it started may still hold the pipe open.
        const end = (): void => resolve(this.#endedBy(signal ? `signal ${signal}` : `exit code ${code}`));
        const late = setTimeout(end, 100);
        child.once("close", () => {
          clearTimeout(late);
          end();
        });
      });
    });
    if (memoryMax > 0) this.#watch = setInterval(() => this.#checkMemory(memoryMax), memoryEveryMs).unref();
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Ends it and all that it started. The first cause is the one that counts. */
  kill(cause: string): void {
    this.#cause ??= cause;
    this.#child.kill("SIGKILL");
    endMarked(this.#mark);
  }

  /** True for one that had more memory than it may, or than its heap has. */
  get isOutOfMemory(): boolean {
    return this.#hasGrown || /heap out of memory/.test(this.#fatal);
  }

  /** What it said last, as the end of a sentence. */
  lastWords(): string {
    const lines = this.#words.trim().split("\n");
    const said = this.#fatal || lines.slice(-3).join(" / ").slice(-500);
    return said === "" ? "it said nothing" : `it said last: ${said}`;
  }

  /** Asks it to end by the end of its socket; after two seconds it is ended. @returns False when it had to be. */
  async close(): Promise<boolean> {
    this.#cause ??= "it was closed";
    this.socket.end();
    let isKilled = false;
    const late = setTimeout(() => {
      isKilled = true;
      this.kill("it was closed");
    }, endMs);
    await this.ended;
    clearTimeout(late);
    this.socket.destroy();
    return !isKilled;
  }

  #hear(stream: Readable): void {
    stream.setEncoding("utf8").on("data", (text: string) => {
      this.#words = (this.#words + text).slice(-wordsMax);
      this.#fatal ||= /^FATAL ERROR: .{0,300}/m.exec(text)?.[0] ?? "";
      this.#echo.take(text);
    });
  }

  #endedBy(reason: string): string {
    if (this.#watch) clearInterval(this.#watch);
    this.#echo.end();
    endMarked(this.#mark);
    return this.#cause ?? `it ended with ${reason}`;
  }

  #checkMemory(memoryMax: number): void {
    const bytes = memoryOf(this.pid);
    if (bytes <= memoryMax) return;
    this.#hasGrown = true;
    const megabytes = (count: number): number => Math.round(count / 2 ** 20);
    this.kill(`it grew to ${megabytes(bytes)} MiB, more than the limit of ${megabytes(memoryMax)} MiB`);
  }
}

/** The error of whoever called a worker that is gone. */
export function lostError(process: WorkerProcess, command: WorkerCommand, reason: string): Error {
  return errors.WorkerLost({ command: command.words.join(" "), reason, words: process.lastWords() });
}
