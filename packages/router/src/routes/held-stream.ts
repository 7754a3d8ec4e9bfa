/** A client inside of the router that reads the stream of a chat answer: pieces are passed on as they come, and the whole is put together. */
import { factsOf, tableOf } from "../core/answer-facts.ts";
import { ChatStream } from "../core/chat-stream.ts";
import { Refused } from "../core/reply.ts";
import { dataOf, doneData, EventSplitter } from "../core/sse.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import type { Grow } from "./growing-answer.ts";
import { HeldAnswer } from "./held-answer.ts";

/** Takes events as a client on a socket does. What an engine answers otherwise is held as it is: errors, and whole answers. */
export class HeldStream extends HeldAnswer {
  readonly #bytesMax: number;
  readonly #memory: AnswerMemory;
  readonly #grow: Grow;
  readonly #splitter = new EventSplitter();
  readonly #chat = new ChatStream();
  /** Of all events, and of what is kept of them. */
  #bytes = 0;
  #held = 0;
  #isEvents = false;
  #isEnded = false;
  #isClosed = false;
  #error: string | null = null;

  /** @param bytesMax - Longest answer, with all that its events say besides. */
  constructor(bytesMax: number, memory: AnswerMemory, grow: Grow) {
    super(bytesMax);
    this.#bytesMax = bytesMax;
    this.#memory = memory;
    this.#grow = grow;
    this.once("close", () => {
      this.#isClosed = true;
      memory.release(this.#held);
    });
  }

  override writeHead(status: number, ...rest: unknown[]): this {
    const headers = rest.at(-1) as Readonly<Record<string, unknown>> | undefined;
    this.#isEvents = `${headers?.["content-type"]}`.startsWith("text/event-stream");
    return super.writeHead(status, headers as Record<string, string>);
  }

  override write(chunk: unknown, written?: unknown): boolean {
    if (!this.#isEvents) return super.write(chunk, written);
    // Nobody would release what comes behind.
    if (this.#isClosed) return true;
    const bytes = Buffer.from(chunk as Uint8Array);
    this.#bytes += bytes.length;
    if (this.#bytes > this.#bytesMax) this.#cutOff(`the engine's answer is longer than ${this.#bytesMax} bytes`);
    else for (const event of this.#splitter.push(bytes)) this.#take(event);
    const grown = this.#chat.bytes - this.#held;
    this.#held += grown;
    if (!this.#memory.hold(grown)) this.#cutOff("answers of all requests together are longer than they may be");
    if (typeof written === "function") setImmediate(() => written());
    return true;
  }

  override end(chunk?: unknown): this {
    this.#isEnded = true;
    return super.end(chunk);
  }

  override answer(): Readonly<Record<string, unknown>> {
    if (!this.#isEvents) return super.answer();
    const whole = this.#isEnded && this.#error === null ? this.#chat.whole() : null;
    if (whole) return whole;
    const message = this.#error ?? "the engine's stream broke off";
    throw new Refused({ status: 502, code: "engine_lost", message });
  }

  #cutOff(error: string): void {
    this.#error ??= error;
    this.destroy();
  }

  #take(event: Buffer): void {
    const data = dataOf(event);
    const table = data === null || data === doneData ? null : tableOf(data);
    if (table === null || this.#error !== null) return;
    this.#error = factsOf(table).error;
    if (this.#error !== null) return;
    const piece = this.#chat.take(table);
    this.#grow(this.#chat.head, piece);
  }
}
