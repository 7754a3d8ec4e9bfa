/** Memory of answers that are held until they are whole, of all requests together. */
import type { ServerResponse } from "node:http";

/** Counts what is held for each client. */
export class AnswerMemory {
  readonly bytesMax: number;
  readonly #held = new WeakMap<ServerResponse, number>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Counts a piece of an answer until its client is done with it, or until {@link release}. @returns False when all together are too much. */
  hold(client: ServerResponse, bytes: number): boolean {
    const before = this.#held.get(client);
    if (before === undefined) client.once("close", () => this.release(client));
    this.#held.set(client, (before ?? 0) + bytes);
    this.#bytes += bytes;
    return this.#bytes <= this.bytesMax;
  }

  /** What was held for this client is dropped. */
  release(client: ServerResponse): void {
    const bytes = this.#held.get(client);
    if (bytes === undefined) return;
    this.#held.set(client, 0);
    this.#bytes -= bytes;
  }
}
