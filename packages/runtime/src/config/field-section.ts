/** How the rows of one section of the table of keys are written down. */
import type { Field, FieldKind } from "./field.ts";

/** How a key is written, its default, what it is, and its place where that is another one. */
export type Row = readonly [kind: FieldKind, fallback: Field["default"], says: string, path?: string];

const camel = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** Rows of one section; a key lands at `<section>.<key>` in camel case, durations with `Ms`, unless the row says where. */
export function section(name: string, rows: Readonly<Record<string, Row>>, required: readonly string[] = []): Field[] {
  return Object.entries(rows).map(([key, [kind, fallback, says, path]]) => ({
    key: `${name}.${key}`,
    path: path ?? `${camel(name)}.${camel(key)}${kind === "duration" ? "Ms" : ""}`,
    kind,
    default: fallback,
    required: required.includes(key),
    says,
  }));
}
