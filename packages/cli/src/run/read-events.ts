/** The public events of a job as the folder of its run has them, for jobs whose broker is gone. */
import { join } from "node:path";
import { partsIn, readLines } from "@muster/check/files";
import type { EventMessage } from "@muster/client";
import { z } from "zod";

const lineSchema = z.object({
  seq: z.number(),
  at: z.string(),
  from: z.string(),
  term: z.number(),
  kind: z.string(),
  body: z.record(z.string(), z.unknown()),
  at_ms: z.number().optional(),
});

/** An event and its place in the stream. */
export interface StoredEvent {
  readonly seq: number;
  /** Since the start of the job. */
  readonly atMs: number;
  readonly event: EventMessage;
}

/**
 * All that are kept, the oldest first, each once: two files may have the same ones where the broker no longer had their beginning. What is no line of an
 * event, e.g. one that was cut, is passed over.
 */
export function* readEvents(directory: string): Generator<StoredEvent> {
  let last = 0;
  for (const part of partsIn(directory, "events")) {
    let isFirst = true;
    for (const { text } of readLines(join(directory, part))) {
      const stored = eventOf(text);
      if (!stored) continue;
      // A broker that lost its store counts anew.
      if (isFirst && stored.seq === 1) last = 0;
      isFirst = false;
      if (stored.seq <= last) continue;
      last = stored.seq;
      yield stored;
    }
  }
}

function eventOf(text: string): StoredEvent | null {
  const line = text.endsWith("}") ? lineSchema.safeParse(JSON.parse(text)).data : undefined;
  if (!line) return null;
  const { seq, at, at_ms: atMs = 0, ...event } = line;
  return { seq, atMs, event: { ...event, sentAtMs: Date.parse(at) } as unknown as EventMessage };
}
