/** Reads `samples.jsonl` of a run, whole or as it grows. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { SampleRecord } from "../report/index.ts";
import { samplesName } from "./sample-file.ts";

const lineSchema = z.object({
  step: z.number(),
  lineage: z.number(),
  group: z.string(),
  sample: z.number(),
  version: z.number(),
  replica: z.string(),
  prompt: z.string(),
  answer: z.string().nullable(),
  completion: z.string(),
  tokens: z.number(),
  status: z.enum(["completed", "truncated", "aborted"]),
  reward: z.number().nullable(),
  // Lines of before they were kept have none.
  components: z.record(z.string(), z.number()).nullable().default(null),
  metadata: z.record(z.string(), z.unknown()).nullable().default(null),
  error: z.string().nullable(),
});

/** The samples in the folder of a run, the oldest first; none without the file. A line that was cut is passed over. */
export function readSamples(directory: string): readonly SampleRecord[] {
  const path = join(directory, samplesName);
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line) => (line.endsWith("}") ? (lineSchema.safeParse(JSON.parse(line)).data ?? []) : []));
}
