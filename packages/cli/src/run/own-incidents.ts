/** Incidents that only the process of a run saw, as its last summary has them: no event tells of a broker or a disk. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Incident } from "../report/index.ts";

const ownKinds = ["broker.died", "broker.silent", "disk.full"];

const summarySchema = z.object({
  incidents: z.array(
    z.object({
      kind: z.string(),
      at_ms: z.number(),
      subject: z.string(),
      detail: z.string(),
      detect_ms: z.number().optional(),
      recover_ms: z.number().optional(),
    }),
  ),
});

/** Reads them; none without a summary. */
export function readOwnIncidents(directory: string): readonly Incident[] {
  const path = join(directory, "summary.json");
  if (!statSync(path, { throwIfNoEntry: false })) return [];
  const summary = summarySchema.safeParse(JSON.parse(readFileSync(path, "utf8"))).data;
  return (summary?.incidents ?? []).flatMap(({ detect_ms, recover_ms, ...incident }) =>
    ownKinds.includes(incident.kind)
      ? [
          {
            ...incident,
            ...(detect_ms === undefined ? {} : { detect_ms }),
            ...(recover_ms === undefined ? {} : { recover_ms }),
          },
        ]
      : [],
  );
}
