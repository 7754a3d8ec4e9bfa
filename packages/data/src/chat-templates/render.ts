/**
 * Renders chat templates in a thread of its own, because they come with models of others and may loop for hours. The caller waits for as long as
 * {@link renderLimits} allow. Then the thread is ended, and the next rendering has a new one.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { awaitChange } from "./await-change.ts";
import { type RenderAnswer, type RenderQuestion, type RenderStart, renderLimits } from "./messages.ts";

/** Time for a thread to start. */
const startMs = 10_000;
/** How often that, or the time of a rendering, is waited for while the process does not compute. */
const waitsMax = 4;

/** One thread for all templates of a process: each question brings its template. */
let shared: TemplateThread | null = null;

/** The answer of the thread. @throws MUSTER_ERR_TEMPLATE_THREAD when there is none */
export function renderTemplate(question: RenderQuestion): RenderAnswer {
  if (!shared || shared.isOver) shared = new TemplateThread();
  return shared.ask(question);
}

class TemplateThread {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #answers = new Int32Array(new SharedArrayBuffer(4));
  #isOver = false;
  #cause: unknown = "it is silent";

  constructor() {
    const { port1, port2 } = new MessageChannel();
    const workerData: RenderStart = { port: port2, answers: this.#answers };
    this.#port = port1;
    // No inherited flags: the thread is plain JavaScript even when the process runs from sources.
    this.#worker = new Worker(threadFile(), {
      ...{ workerData, transferList: [port2], execArgv: [], name: "chat templates" },
      resourceLimits: { maxOldGenerationSizeMb: renderLimits.megabytes },
    });
    this.#worker.unref();
    this.#worker.once("error", (error) => {
      this.#cause = error;
    });
    this.#worker.once("exit", () => this.#end());
  }

  /** It answers no more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  ask(question: RenderQuestion): RenderAnswer {
    if (!this.#hasAnswered(0, startMs)) {
      this.#end();
      throw errors.TemplateThread({ reason: `no answer within ${startMs} ms: ${messageOf(this.#cause)}` });
    }
    const before = Atomics.load(this.#answers, 0);
    this.#port.postMessage(question);
    const isAnswered = this.#hasAnswered(before, renderLimits.ms);
    const answer = isAnswered ? receiveMessageOnPort(this.#port) : undefined;
    if (answer) return answer.message as RenderAnswer;
    this.#end();
    const { ms, megabytes } = renderLimits;
    return { kind: "excess", reason: `it takes more than ${ms} ms or ${megabytes} MiB of memory` };
  }

  /**
   * Time in which the process was stopped, or had no processor, is not the template's: the wait is over when the process has computed for as long
   * as that. One that waits for nobody, as a thread that does not start, is waited for a few times.
   */
  #hasAnswered(before: number, ms: number): boolean {
    const began = process.cpuUsage();
    for (let waits = 0; waits < waitsMax; waits++) {
      if (awaitChange(this.#answers, before, ms)) return true;
      const { user, system } = process.cpuUsage(began);
      if ((user + system) / 1_000 >= ms) break;
    }
    return Atomics.load(this.#answers, 0) !== before;
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#port.close();
    void this.#worker.terminate();
  }
}

/** The compiled thread: beside this file when compiled, in `dist` when this file runs from source. */
function threadFile(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = new URL(fromSource ? "../../dist/chat-templates/thread.js" : "./thread.js", import.meta.url);
  if (!existsSync(file))
    throw errors.TemplateThread({ reason: `there is no ${fileURLToPath(file)}; build the project first (pnpm build)` });
  return file;
}
