/** One client's stream of an answer that grows: it is given what is new as fast as it takes it, and no faster. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { EventWriter } from "../core/dialect.ts";
import { Refused, type Reply } from "../core/reply.ts";
import type { GrowingAnswer } from "./growing-answer.ts";
import { refusalOf } from "./refusal.ts";

/** Times of a stream, in milliseconds. */
export interface StreamTimes {
  /** A client that takes nothing for so long is cut off. */
  readonly stallMs: number;
  /** A client that has heard nothing for so long hears a ping. */
  readonly pingMs: number;
}

/** How often those who wait hear a ping: proxies cut connections that are silent for a minute. */
export const pingMs = 15_000;

const drawnAnew: Reply = {
  ...{ status: 502, code: "engine_lost" },
  message: "the engine was lost in the middle, and the answer that was drawn anew is another one; ask again for it",
};

/**
 * Waits for the answer to begin. Nothing was sent yet: what fails until now has a status of its own.
 *
 * @throws why it failed
 */
export async function begun(answer: GrowingAnswer): Promise<void> {
  while (answer.head === null && answer.end === null) await answer.next();
  if (answer.end !== null && "error" in answer.end) throw answer.end.error;
}

/** Sends an answer that has begun, until its end or until the client leaves. @returns What failed that no client is to blame for; else `null`. */
export async function sendAnswer(
  client: ServerResponse,
  answer: GrowingAnswer,
  events: EventWriter,
  { stallMs, pingMs }: StreamTimes,
): Promise<unknown> {
  const gone = new AbortController();
  let wake = (): void => {};
  client.once("close", () => {
    gone.abort();
    wake();
  });
  client.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  client.on("timeout", () => client.destroy());
  let out = events.begin(answer.head ?? {});
  const pings = setInterval(() => {
    if (!client.writableNeedDrain && !client.destroyed) client.write(events.ping);
  }, pingMs);
  const { draft } = answer;
  let taken = 0;
  try {
    for (;;) {
      // Of this moment: what grows while a client takes its part is the next part.
      const { pieces, end } = answer;
      const isOther = answer.draft !== draft && taken > 0;
      const text = isOther ? "" : pieces.slice(taken).join("");
      taken = pieces.length;
      if (text !== "") out += events.text(text);
      if (isOther) out += events.fail(drawnAnew);
      else if (end !== null)
        out += "answer" in end ? events.end(end.answer) : events.fail(refusalOf(end.error, noBody).reply);
      if (client.destroyed) return null;
      if (isOther || end !== null) {
        client.socket?.setTimeout(stallMs);
        client.end(out);
        return end !== null && "error" in end && !(end.error instanceof Refused) ? end.error : null;
      }
      if (out !== "" && !client.write(out)) await drained(client, gone.signal, stallMs);
      out = "";
      if (client.destroyed || answer.pieces.length !== taken || answer.end !== null) continue;
      // No race with a promise of the whole stream: that would keep something for each piece.
      await new Promise<void>((resolve) => {
        wake = resolve;
        void answer.next().then(resolve);
      });
    }
  } finally {
    clearInterval(pings);
  }
}

const noBody = { bodyBytesMax: 0 };

/** By the socket's own clock, which knows how much of a large piece has left. Resolves also when the client leaves. */
async function drained(client: ServerResponse, gone: AbortSignal, stallMs: number): Promise<void> {
  client.socket?.setTimeout(stallMs);
  await once(client, "drain", { signal: gone }).catch(() => {});
  client.socket?.setTimeout(0);
}
