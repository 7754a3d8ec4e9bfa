/** The faults that `muster chaos` did to a run, from the file that it keeps beside it. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Injection } from "./incident-book.ts";

const lineSchema = z.object({ done: z.object({ injectedAtMs: z.number(), id: z.string() }) });

/** Reads them, at wall times; none where nobody did any. Lines that say something else are passed over. */
export function readInjections(directory: string): readonly Injection[] {
  const path = join(directory, "chaos.jsonl");
  if (!statSync(path, { throwIfNoEntry: false })) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line) => {
      const { done } = (line.endsWith("}") ? lineSchema.safeParse(JSON.parse(line)).data : undefined) ?? {};
      return done ? [{ atMs: done.injectedAtMs, id: done.id }] : [];
    });
}
