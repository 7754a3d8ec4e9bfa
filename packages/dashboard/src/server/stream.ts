/** The server-sent events of the page: first all that is known, then each fact and each status as it comes. */
import type { ServerResponse } from "node:http";
import type { JobWatch } from "./job-watch.ts";

/** What a reader may leave unread before it is cut off; it comes back and begins anew. */
const unreadMaxBytes = 4 * 2 ** 20;

/** Writes them until the reader goes away or `signal` is aborted. */
export function streamTo(response: ServerResponse, watch: JobWatch, about: object, signal: AbortSignal): void {
  response.writeHead(200, {
    ...{ "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store", "x-accel-buffering": "no" },
  });
  const send = (event: string, value: unknown): void => {
    if (response.writableLength > unreadMaxBytes) return void response.destroy();
    response.write(`event: ${event}\ndata: ${JSON.stringify(value)}\n\n`);
  };
  send("view", { ...about, known: watch.known, status: watch.status });
  const stop = watch.listen({ fact: (fact) => send("fact", fact), status: (status) => send("status", status) });
  const end = (): void => {
    stop();
    signal.removeEventListener("abort", end);
    response.end();
  };
  response.on("close", end);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
}
