/** The keys of a job file together: one table for the file, the environment, the flags, `--explain` and the reference. */

import { failureFields } from "./failure-fields.ts";
import type { Field } from "./field.ts";
import { checkpointFields, engineFields, healthFields, planeFields, runFields, timingFields } from "./field-table.ts";

/** Every key, in the order of the reference. */
export const fields: readonly Field[] = [
  runFields,
  engineFields,
  checkpointFields,
  timingFields,
  healthFields,
  failureFields,
  planeFields,
].flat();

/** The keys by name. */
export const fieldByKey: ReadonlyMap<string, Field> = new Map(fields.map((field) => [field.key, field]));

/** The sections, in the order of the reference. */
export const sections: readonly string[] = [...new Set(fields.map((field) => sectionOf(field.key)))];

/** `timing.step` → `timing`. */
function sectionOf(key: string): string {
  return key.slice(0, key.indexOf("."));
}

/** The environment variable of a key: `timing.step` → `MUSTER_TIMING_STEP`. */
export function envNameOf(key: string): string {
  return `MUSTER_${key.replaceAll(".", "_").toUpperCase()}`;
}
