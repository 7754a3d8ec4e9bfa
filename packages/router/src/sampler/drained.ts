/** Slow clients of a stream. */
import { once } from "node:events";
import type { Writable } from "node:stream";

/** Waits until a client takes what it was sent; one that takes nothing for so long is cut off. `gone`: it has left. @throws when it has. */
export async function drained(client: Writable, gone: AbortSignal, stallMs: number): Promise<void> {
  const late = setTimeout(() => client.destroy(), stallMs);
  try {
    await once(client, "drain", { signal: gone });
  } finally {
    clearTimeout(late);
  }
}
