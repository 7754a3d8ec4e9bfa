/** The public events of a job as an outsider hears them, with the time of hearing. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type AnyMessage, decodeMessage, type KindOf, messageTable } from "@muster/protocol";
import { type Credentials, connectNats, type Transport } from "@muster/transport";

/** A public event and when it was heard, in wall milliseconds. */
export type HeardEvent = Extract<AnyMessage, { kind: KindOf<"event"> }> & { readonly atMs: number };

/** What is heard of a job. */
export interface JobSubscription {
  /** Events so far, each fact once, though a new controller may say it again. */
  readonly events: readonly HeardEvent[];
  readonly transport: Transport;
  close(): Promise<void>;
}

/** Port of the job's own broker, `null` before it has one. */
export function brokerPortOf(directory: string): number | null {
  const saved = readJson<{ readonly port: number }>(join(directory, "nats", "server.json"));
  return saved && saved.port > 0 ? saved.port : null;
}

/** The user of a role of the job's broker; `undefined` when there is none. */
export function userOf(directory: string, role: string): Credentials | undefined {
  const path = join(directory, "credentials", `${role}.json`);
  return readJson<{ readonly credentials: Readonly<Record<string, Credentials>> }>(path)?.credentials[role];
}

/** Follows the events of the job in `directory` from the first, past any proxy. */
export async function followJob(
  directory: string,
  job: string,
  onEvent: (event: HeardEvent) => void,
): Promise<JobSubscription> {
  const credentials = userOf(directory, "operator");
  const port = brokerPortOf(directory);
  if (!credentials || port === null) throw new Error(`${directory} has no operator or no broker`);
  const url = `nats://127.0.0.1:${port}`;
  const transport = await connectNats({ url, job, credentials, name: "operator.chaos.0", connectTimeoutMs: 10_000 });
  const events: HeardEvent[] = [];
  const known = new Set<string>();
  const subscription = await transport.tail({
    stream: "events",
    fromSeq: 1,
    handle: ({ data }) => {
      const message = decodeMessage(data);
      if (messageTable[message.kind].direction !== "event" || known.has(message.id)) return;
      known.add(message.id);
      const event = { ...message, atMs: Date.now() } as HeardEvent;
      events.push(event);
      onEvent(event);
    },
  });
  return {
    events,
    transport,
    async close() {
      await subscription.close();
      await transport.close();
    },
  };
}

/** Reads what `muster run` wrote; its shape is that of the run that we started. */
function readJson<T>(path: string): T | null {
  return statSync(path, { throwIfNoEntry: false }) ? (JSON.parse(readFileSync(path, "utf8")) as T) : null;
}
