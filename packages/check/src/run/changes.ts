/** What operators changed of a job, in a file of its own: the events that told of it may be dropped, and each later step depends on it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type ChangedSettings, changedSettingsSchema } from "@muster/protocol";
import { z } from "zod";
import { partName } from "./parts.ts";
import { readLines } from "./read-lines.ts";

/** Name of the file, without its ending. It is never dropped: a job has few changes. */
export const changesName = "changes";

const lineSchema = changedSettingsSchema.extend({ at: z.string() });

/** A change, and when it was said: ISO 8601. */
export type SaidChange = z.infer<typeof lineSchema>;

/** A line of the file. The same change that is told again has the same line. Pure. */
export function changeLine({ fromStep, settings }: ChangedSettings, at: string): string {
  return JSON.stringify({ at, fromStep, settings });
}

/** All changes of a run in the order in which they were said; `null` where the run has no such file. */
export function readChanges(folder: string): readonly SaidChange[] | null {
  const path = join(folder, partName(changesName));
  if (!existsSync(path)) return null;
  return [...readLines(path)].flatMap(({ text }) => lineSchema.safeParse(jsonOf(text)).data ?? []);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
