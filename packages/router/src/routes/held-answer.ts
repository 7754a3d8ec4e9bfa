/** A client inside of the router: it holds an engine's answer, so that the answer can be recorded before anybody sees it. */
import { type IncomingMessage, ServerResponse } from "node:http";
import { isNestedTooDeep, nestingMax } from "@muster/http";
import { tableOf } from "../core/answer-facts.ts";
import { Refused } from "../core/reply.ts";

/** Takes an answer as a client on a socket does. It never leaves: a turn that is begun is recorded, whether or not its agent still waits. */
export class HeldAnswer extends ServerResponse {
  readonly #bytesMax: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isClosed = false;

  /** @param bytesMax - Longest answer; a longer one is cut off, as by a client that leaves. */
  constructor(bytesMax: number) {
    super({ method: "POST", httpVersionMajor: 1, httpVersionMinor: 1 } as IncomingMessage);
    this.#bytesMax = bytesMax;
  }

  override write(chunk: unknown, written?: unknown): boolean {
    const bytes = Buffer.from(chunk as Uint8Array);
    this.#bytes += bytes.length;
    if (this.#bytes <= this.#bytesMax) this.#chunks.push(bytes);
    else {
      this.#chunks = [];
      this.#close();
    }
    // Whoever waits for its last write before it cuts the connection does so.
    if (typeof written === "function") setImmediate(() => written());
    return true;
  }

  override end(chunk?: unknown): this {
    if (chunk !== undefined) this.write(chunk);
    // As of a socket: whoever wrote the end hears of the close later.
    setImmediate(() => this.#close());
    return this;
  }

  override destroy(): this {
    this.#close();
    return this;
  }

  /** The answer. @throws Refused with what the engine or the router said instead */
  answer(): Readonly<Record<string, unknown>> {
    if (this.#bytes > this.#bytesMax) {
      const message = `the engine's answer is longer than ${this.#bytesMax} bytes`;
      throw new Refused({ status: 502, code: "engine_failed", message });
    }
    const text = Buffer.concat(this.#chunks).toString("utf8");
    const table = tableOf(text);
    if (this.statusCode === 200 && table) return table;
    const {
      message = `the engine's answer ${isNestedTooDeep(text) ? `is nested deeper than ${nestingMax}` : "broke off"}`,
    } = (table?.error ?? table ?? {}) as { message?: unknown };
    const status = this.statusCode === 200 ? 502 : this.statusCode;
    throw new Refused({
      ...{ status, code: status < 500 ? "invalid_request" : "engine_failed", message: `${message}` },
      ...(status === 503 || status === 429 ? { retryAfter: 1 } : {}),
    });
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    super.destroy();
    this.emit("close");
  }
}
