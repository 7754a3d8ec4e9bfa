/** One life of an inference server that Muster started: its port, its log, its end with all that it started. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { guarded, type WorkerCommand } from "../programs/command.ts";
import { endMarked, ProcessMark } from "../programs/process-mark.ts";
import { reservePort } from "../reserve-port.ts";
import type { WeightPlace } from "./dialect.ts";

/** What a server said last, in characters. */
const wordsMax = 4_000;

/** A server that runs, or ran. */
export class ServerProcess {
  readonly url: string;
  /** Settles, and never rejects, with the error of whoever needs it, once the process and all that it started are gone. */
  readonly ended: Promise<Error>;
  readonly #child: ChildProcess;
  readonly #mark = new ProcessMark();
  #words = "";
  #cause: string | null = null;
  #isGone = false;

  private constructor({ words, env }: WorkerCommand, port: number, place: WeightPlace) {
    this.url = `http://127.0.0.1:${port}`;
    const facts: Readonly<Record<string, string>> = { port: String(port), model: place.path, tag: place.tag };
    const filled = words.map((word) => word.replace(/\{(port|model|tag)\}/g, (_, name: string) => facts[name] ?? ""));
    const [program = "", ...args] = guarded(this.#mark.words(filled));
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...env, ...this.#mark.env },
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) this.#hear(stream as Readable);
    this.ended = new Promise((resolve) => {
      const end = (reason: string): void => {
        this.#isGone = true;
        endMarked(this.#mark);
        const said = this.#words.trim().split("\n").slice(-3).join(" / ").slice(-500);
        const facts = { command: filled.join(" "), reason: this.#cause ?? reason };
        resolve(errors.ServerEnded({ ...facts, words: said === "" ? "it said nothing" : `it said last: ${said}` }));
      };
      child.once("error", (error) => end(messageOf(error)));
      child.once("exit", (code, signal) => {
        const reason = signal ? `signal ${signal}` : `exit code ${code}`;
        // What it wrote last may still be in the pipe, and what it started may hold the pipe open.
        const late = setTimeout(() => end(reason), 100);
        child.once("close", () => {
          clearTimeout(late);
          end(reason);
        });
      });
    });
  }

  /** Starts a server at a port that is kept free for it. */
  static async start(command: WorkerCommand, place: WeightPlace): Promise<ServerProcess> {
    return new ServerProcess(command, await reservePort("127.0.0.1"), place);
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Ends it and all that it started, and waits for that. */
  async kill(cause: string): Promise<void> {
    this.#cause ??= cause;
    this.#child.kill("SIGKILL");
    endMarked(this.#mark);
    await this.ended;
  }

  /** Its log goes where that of its sampler goes. */
  #hear(stream: Readable): void {
    stream.setEncoding("utf8").on("data", (text: string) => {
      this.#words = (this.#words + text).slice(-wordsMax);
      process.stderr.write(text);
    });
  }
}
