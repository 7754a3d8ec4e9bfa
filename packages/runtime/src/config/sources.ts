/**
 * Where values come from: the job file, the environment, flags; later ones win. A source yields raw values by key and the problems
 * of keys that do not exist; what a value means is not its business.
 */
import { readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { messageOf } from "@muster/base";
import { parse, type TomlTable, type TomlValue } from "smol-toml";
import { envNameOf, type KeyTable } from "./fields.ts";
import { type Problem, shown } from "./problem.ts";
import { nearestTo } from "./suggest.ts";
import { lineOfKey } from "./toml-lines.ts";

/** A value as somebody wrote it. */
export interface Raw {
  readonly value: TomlValue;
  /** True when it came as text whatever its kind: from the environment or a flag. */
  readonly textual: boolean;
  /** `dates.toml:12`, `env:MUSTER_TIMING_STEP` or `flag`. */
  readonly source: string;
  /** Folder that relative paths start from. */
  readonly folder: string;
}

/** Raw values by key, and what was wrong with the rest. */
export interface Sourced {
  readonly values: ReadonlyMap<string, Raw>;
  readonly problems: readonly Problem[];
  /** Nothing could be read, so that what is missing says nothing. */
  readonly isUnread?: boolean;
}

/** Reads a job file. Never throws: an unreadable file is a problem too. */
export function readFile(file: string, keys: KeyTable): Sourced {
  const values = new Map<string, Raw>();
  const problems: Problem[] = [];
  const folder = dirname(resolve(file));
  let text = "";
  let table: TomlTable = {};
  try {
    text = readFileSync(file, "utf8");
    table = parse(text);
  } catch (error) {
    const text = `${file}: ${messageOf(error).trim()}; give the path of a readable TOML file`;
    return { values, problems: [{ keys: [], text }], isUnread: true };
  }
  for (const [key, value] of entriesOf(table, keys)) {
    const source = `${basename(file)}:${lineOfKey(text, key) ?? "?"}`;
    if (keys.byKey.has(key)) values.set(key, { value, textual: false, source, folder });
    else problems.push(unknownKey(key, { source, value, candidates: candidatesFor(key, keys) }));
  }
  return { values, problems };
}

/** Reads `MUSTER_<SECTION>_<KEY>` variables; other `MUSTER_` variables belong to others. */
export function readEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  folder: string,
  keys: KeyTable,
): Sourced {
  const values = new Map<string, Raw>();
  const problems: Problem[] = [];
  const keyOfName = new Map(keys.fields.map((field) => [envNameOf(field.key), field.key]));
  const prefixes = keys.sections.map((section) => `MUSTER_${section.toUpperCase()}_`);
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !prefixes.some((prefix) => name.startsWith(prefix))) continue;
    const key = keyOfName.get(name);
    const source = `env:${name}`;
    if (key) values.set(key, { value, textual: true, source, folder });
    else problems.push(unknownKey(name, { source, value, candidates: keyOfName.keys() }));
  }
  return { values, problems };
}

/** Reads flags: `section.key=value` texts, and named ones by key; named ones win. */
export function readFlags(
  flags: { readonly set: readonly string[]; readonly named: Readonly<Record<string, string | number | boolean>> },
  folder: string,
  keys: KeyTable,
): Sourced {
  const values = new Map<string, Raw>();
  const problems: Problem[] = [];
  const source = "flag";
  const add = (key: string, value: string): void => {
    if (keys.byKey.has(key)) values.set(key, { value, textual: true, source, folder });
    else problems.push(unknownKey(key, { source, value, candidates: candidatesFor(key, keys) }));
  };
  for (const text of flags.set) {
    const at = text.indexOf("=");
    if (at > 0) add(text.slice(0, at).trim(), text.slice(at + 1).trim());
    else problems.push({ keys: [], text: `flag: --set ${shown(text)} has no value; write --set section.key=value` });
  }
  for (const [key, value] of Object.entries(flags.named)) add(key, String(value));
  return { values, problems };
}

function entriesOf(table: TomlTable, keys: KeyTable, within = ""): [string, TomlValue][] {
  return Object.entries(table).flatMap(([name, inner]): [string, TomlValue][] =>
    isTable(inner) && !keys.byKey.has(within + name)
      ? entriesOf(inner, keys, `${within}${name}.`)
      : [[within + name, inner]],
  );
}

function isTable(value: TomlValue): value is TomlTable {
  return typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

/** Keys to suggest: of the same section when it exists, else all. */
function candidatesFor(key: string, { fields }: KeyTable): readonly string[] {
  const section = `${key.split(".")[0]}.`;
  const same = fields.filter((field) => field.key.startsWith(section));
  return (same.length > 0 ? same : fields).map((field) => field.key);
}

function unknownKey(
  key: string,
  {
    source,
    value,
    candidates,
  }: { readonly source: string; readonly value: unknown; readonly candidates: Iterable<string> },
): Problem {
  const nearest = nearestTo(key, candidates);
  const fix = nearest ? `did you mean ${nearest}?` : "remove it; `muster config print` lists all keys";
  return { keys: [], text: `${source}: ${key} = ${shown(value)} is not a known key; ${fix}` };
}
