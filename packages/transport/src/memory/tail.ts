/** Following a stream in memory, in order and without acknowledgements. */
import type { Subscription, TailEntry } from "../transport.ts";
import type { MemoryConnection } from "./connection.ts";
import type { MemoryStream } from "./stream.ts";

/** Where to start, and who is shown each entry. */
export interface FollowOptions {
  readonly fromSeq: number | "new";
  readonly show: (entry: TailEntry) => void;
}

export function followStream(
  stream: MemoryStream,
  connection: MemoryConnection,
  { fromSeq, show }: FollowOptions,
): Subscription {
  let nextSeq = fromSeq === "new" ? stream.lastSeq + 1 : Math.max(1, fromSeq);
  let isClosed = false;

  const drain = (): void => {
    while (!isClosed && connection.isConnected && nextSeq <= stream.lastSeq) {
      const entry = stream.get(nextSeq++);
      if (entry) show({ seq: entry.seq, subject: entry.subject, data: entry.data });
    }
  };
  const wake = (): void => queueMicrotask(drain);
  const stopAppends = stream.onAppend(">", wake);
  const stopChanges = connection.onChange(wake);
  wake();

  return {
    async close() {
      isClosed = true;
      stopAppends();
      stopChanges();
    },
  };
}
