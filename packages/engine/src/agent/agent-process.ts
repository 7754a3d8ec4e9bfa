/** One agent: a program that is started for one episode, held to its limits, and ended with all that it started. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { guarded } from "../programs/command.ts";
import { memoryOf } from "../programs/proc.ts";
import type { ProcessMark } from "../programs/process-mark.ts";

/** What an agent said last, in characters. */
const wordsMax = 2_000;

/** How often its memory is looked at. */
const memoryEveryMs = 500;

/** What an agent is started with. */
export interface AgentStart {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly directory: string;
  /** Written to its standard input, which then ends. */
  readonly input: string;
  /** Marks its processes. */
  readonly mark: ProcessMark;
  /** Anonymous memory of it and what it started, in bytes; 0 for no limit. */
  readonly memoryMax: number;
  /** Bytes that it may write to its standard output and error. */
  readonly outputMax: number;
}

/** A running agent. */
export class AgentProcess {
  /** Resolves when it has ended with exit code 0; else rejects with MUSTER_ERR_AGENT_ENDED. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #start: AgentStart;
  readonly #watch: NodeJS.Timeout | null;
  #cause: string | null = null;
  #words = "";
  #written = 0;

  constructor(start: AgentStart) {
    this.#start = start;
    const [program = "", ...args] = guarded(start.mark.words(start.words));
    const env = { ...start.env, ...start.mark.env };
    const child = spawn(program, args, { stdio: "pipe", cwd: start.directory, env });
    this.#child = child;
    // Without a free file descriptor it has none of them, and the error says so.
    const { stdin, stdout, stderr }: Partial<Pick<ChildProcess, "stdin" | "stdout" | "stderr">> = child;
    // An agent need not read it.
    stdin?.on("error", () => {});
    stdin?.end(start.input);
    for (const stream of [stdout, stderr]) if (stream) this.#hear(stream);
    this.#watch = start.memoryMax > 0 ? setInterval(() => this.#checkMemory(), memoryEveryMs).unref() : null;
    this.ended = new Promise((resolve, reject) => {
      const end = (reason: string | null): void => {
        if (this.#watch) clearInterval(this.#watch);
        // What it started may write for ever.
        for (const stream of [stdout, stderr]) stream?.destroy();
        const cause = this.#cause ?? reason;
        if (cause === null) resolve();
        else reject(this.#error(cause));
      };
      child.once("error", (error) => end(messageOf(error)));
      child.once("exit", (code, signal) => {
        const reason = code === 0 ? null : signal ? `signal ${signal}` : `exit code ${code}`;
        // What it wrote last may still be in the pipe, and what it started may hold the pipe open.
        const late = setTimeout(() => end(reason), 100);
        child.once("close", () => {
          clearTimeout(late);
          end(reason);
        });
      });
    });
    // Whoever kills it does not always wait for it.
    this.ended.catch(() => {});
  }

  /** Ends it. The first cause is the one that counts. */
  kill(cause: string): void {
    this.#cause ??= cause;
    this.#child.kill("SIGKILL");
  }

  #error(reason: string): Error {
    const said = this.#words.trim().split("\n").slice(-3).join(" / ").slice(-500);
    const words = said === "" ? "it said nothing" : `it said last: ${said}`;
    return errors.AgentEnded({ command: this.#start.words.join(" ").slice(0, 300), reason, words });
  }

  #hear(stream: Readable): void {
    stream.setEncoding("utf8").on("data", (text: string) => {
      this.#words = (this.#words + text).slice(-wordsMax);
      this.#written += Buffer.byteLength(text);
      const { outputMax } = this.#start;
      if (this.#written > outputMax) this.kill(`it wrote more than ${outputMax} bytes (rollout.agent.output_max)`);
    });
  }

  #checkMemory(): void {
    const { memoryMax } = this.#start;
    const bytes = memoryOf(this.#child.pid ?? 0);
    if (bytes > memoryMax)
      this.kill(`it grew to ${bytes} bytes of memory, more than ${memoryMax} (rollout.agent.memory)`);
  }
}
