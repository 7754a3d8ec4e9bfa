/** A run that goes on with a job file must be the run that was begun with it. */
import { clipText } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { errors } from "../errors.ts";

/** Replaying a journal under another plan would give another state. @throws MUSTER_ERR_JOB_DIFFERS */
export function checkSame(config: JobConfig, earlier: JobConfig, resume: string): void {
  for (const [field, value] of Object.entries(config))
    if (JSON.stringify(value) !== JSON.stringify(earlier[field as keyof JobConfig]))
      throw errors.JobDiffers({ job: config.job, ...differenceOf(field, { earlier, config }), resume });
}

/** The first part of a field that differs, and both of its values. */
function differenceOf(field: string, { earlier, config }: Record<"earlier" | "config", JobConfig>) {
  const was = earlier[field as keyof JobConfig] as unknown;
  const is = config[field as keyof JobConfig] as unknown;
  const text = (value: unknown): string => clipText(JSON.stringify(value) ?? "not set", 120);
  if (!isTable(was) || !isTable(is)) return { field, earlier: text(was), now: text(is) };
  const [name = ""] = Object.keys({ ...was, ...is }).filter((key) => text(was[key]) !== text(is[key]));
  return { field: `${field}.${name}`, earlier: text(was[name]), now: text(is[name]) };
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
