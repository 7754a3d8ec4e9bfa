/** A client inside of the router: it holds an engine's answer, so that the answer can be recorded before anybody sees it. */
import { type IncomingMessage, ServerResponse } from "node:http";
import { tableOf } from "../core/answer-facts.ts";
import { Refused } from "../core/reply.ts";

/** Takes an answer as a client on a socket does. It never leaves: a turn that is begun is recorded, whether or not its agent still waits. */
export class HeldAnswer extends ServerResponse {
  readonly #chunks: Buffer[] = [];
  #isClosed = false;

  constructor() {
    super({ method: "POST", httpVersionMajor: 1, httpVersionMinor: 1 } as IncomingMessage);
  }

  override write(chunk: unknown): boolean {
    this.#chunks.push(Buffer.from(chunk as Uint8Array));
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
    const table = tableOf(Buffer.concat(this.#chunks).toString("utf8"));
    if (this.statusCode === 200 && table) return table;
    const { message = "the engine's answer broke off" } = (table?.error ?? table ?? {}) as { message?: unknown };
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
