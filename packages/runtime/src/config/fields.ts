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

/** Keys that a job may have, by name: those above, and those of the tables of its engines. */
export interface KeyTable {
  /** In the order of the reference; the tables of engines come last. */
  readonly fields: readonly Field[];
  readonly byKey: ReadonlyMap<string, Field>;
  readonly sections: readonly string[];
}

/** Makes the table of keys of a job. Pure. */
export function keyTableOf(engineFields: readonly Field[]): KeyTable {
  const all = [...fields, ...engineFields];
  return {
    fields: all,
    byKey: new Map(all.map((field) => [field.key, field])),
    sections: [...new Set(all.map(({ key }) => key.slice(0, key.indexOf("."))))],
  };
}

/** The environment variable of a key: `timing.step` → `MUSTER_TIMING_STEP`. */
export function envNameOf(key: string): string {
  return `MUSTER_${key.replaceAll(".", "_").toUpperCase()}`;
}
