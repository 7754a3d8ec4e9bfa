/**
 * Sections on their way to the addon: one table for all of them. An object for each took longer to read there than 64 MiB take to copy,
 * when they were a thousand.
 */
import { hexOf, toDigest } from "./digest.ts";
import { errors } from "./errors.ts";
import type { NativeTable } from "./native.ts";

const separator = "\0";
const digits = 16;

/** What a section is called, how long it is, and what it is. */
interface Described {
  readonly name: string;
  readonly bytes: number;
  readonly digest: string;
}

/** Sections as the addon takes them. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export function tableOf(sections: readonly Described[]): NativeTable {
  return {
    names: joinNames(sections.map(({ name }) => name)),
    sizes: Float64Array.from(sections, ({ bytes }) => bytes),
    digests: sections.map(({ digest }) => hexOf(digest)).join(""),
  };
}

/** Names as the addon takes them. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export function joinNames(names: readonly string[]): string {
  const wrong = names.find((name) => name.includes(separator));
  if (wrong === undefined) return names.join(separator);
  throw errors.NativeOptionInvalid({ field: "section", value: wrong, fix: "give a name without NUL" });
}

/** Digests that the addon gave, one behind the other. */
export function splitDigests(joined: string): string[] {
  return Array.from({ length: joined.length / digits }, (_, i) => toDigest(joined.slice(i * digits, (i + 1) * digits)));
}
