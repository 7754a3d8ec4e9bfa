/** The public events of a job as the folder of its run has them, for jobs whose broker is gone. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { EventMessage } from "@muster/client";
import { z } from "zod";

const lineSchema = z.object({
  seq: z.number(),
  at: z.string(),
  from: z.string(),
  term: z.number(),
  kind: z.string(),
  body: z.record(z.string(), z.unknown()),
});

/** An event and its place in the stream. */
export interface StoredEvent {
  readonly seq: number;
  readonly event: EventMessage;
}

/** All of them, the oldest first, from what the broker no longer had on. What is no line of an event, e.g. one that was cut, is passed over. */
export function* readEvents(directory: string): Generator<StoredEvent> {
  for (let number = 1; existsSync(join(directory, `events.${number}.jsonl`)); number++)
    yield* eventsIn(join(directory, `events.${number}.jsonl`));
  yield* eventsIn(join(directory, "events.jsonl"));
}

function* eventsIn(path: string): Generator<StoredEvent> {
  if (!existsSync(path)) return;
  for (const text of readFileSync(path, "utf8").split("\n")) {
    const line = text.endsWith("}") ? lineSchema.safeParse(JSON.parse(text)).data : undefined;
    if (!line) continue;
    const { seq, at, ...event } = line;
    yield { seq, event: { ...event, sentAtMs: Date.parse(at) } as unknown as EventMessage };
  }
}
