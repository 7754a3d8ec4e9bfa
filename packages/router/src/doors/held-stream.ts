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
  #bytes = 0;
  #isEvents = false;
  #isEnded = false;
  #error: string | null = null;

  /** @param bytesMax - Longest answer, with all that its events say besides. */
  constructor(bytesMax: number, memory: AnswerMemory, grow: Grow) {
    super(bytesMax);
    this.#bytesMax = bytesMax;
    this.#memory = memory;
    this.#grow = grow;
    this.once("close", () => memory.release(this.#bytes));
  }

  override writeHead(status: number, ...rest: unknown[]): this {
    const headers = rest.at(-1) as Readonly<Record<string, unknown>> | undefined;
    this.#isEvents = `${headers?.["content-type"]}`.startsWith("text/event-stream");
    return super.writeHead(status, headers as Record<string, string>);
  }

  override write(chunk: unknown, written?: unknown): boolean {
    if (!this.#isEvents) return super.write(chunk, written);
    const bytes = Buffer.from(chunk as Uint8Array);
    this.#bytes += bytes.length;
    const isRoom = this.#memory.hold(bytes.length);
    if (!isRoom || this.#bytes > this.#bytesMax) {
      const which = isRoom ? "the engine's answer is" : "answers of all requests together are";
      this.#error ??= `${which} longer than they may be`;
      this.destroy();
    } else for (const event of this.#splitter.push(bytes)) this.#take(event);
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
