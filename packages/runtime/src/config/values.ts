/** From what somebody wrote to what the compiled configuration holds, per kind of field. */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf, parseDurationMs, parseSizeBytes } from "@muster/base";
import { type Field, type FieldKind, isPathOfModule } from "./field.ts";
import { shown } from "./problem.ts";
import type { Raw } from "./sources.ts";

/** A parsed value, or what is wrong with it and how to mend it. */
export type Parsed = { readonly value: unknown } | { readonly fault: string };

const expected: Readonly<Record<FieldKind, string>> = {
  text: 'text, such as "name"',
  "optional-text": 'text, or "" for none',
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  duration: 'a duration, such as "250ms", "5s" or "2m"',
  size: 'a size, such as "512KiB" or "4GiB"',
  path: "a path",
  "optional-path": 'a path, or "" for none',
  module: 'a name, or a path of a module such as "./my-reward.mjs"',
  reward:
    'a name, a path of a module or program such as "./reward.mjs" or "./reward.py", an address such as "http://127.0.0.1:8000/reward", or "worker"',
  "optional-module": 'a path of a module such as "./my-generate.mjs", or "" for none',
  source: '"seed", "seed:NUMBER", "folder:PATH" or "checkpoint:PATH"',
};

/** Parses the raw value of a field. `seed` is what the weight source `seed` stands for. */
export function parseValue(field: Field, raw: Raw, seed: number): Parsed {
  const value = raw.textual ? untextual(field.kind, String(raw.value)) : raw.value;
  const fault = { fault: `must be ${expected[field.kind]}` };
  switch (field.kind) {
    case "integer":
      return Number.isSafeInteger(value) ? { value } : fault;
    case "number":
      return typeof value === "number" && Number.isFinite(value) ? { value } : fault;
    case "boolean":
      return typeof value === "boolean" ? { value } : fault;
    case "duration":
      return parseUnit(value, parseDurationMs) ?? fault;
    case "size":
      return parseUnit(value, parseSizeBytes) ?? fault;
    case "path":
      return typeof value === "string" && value !== "" ? { value: resolve(raw.folder, value) } : fault;
    case "source":
      return parseSource(value, { folder: raw.folder, seed }) ?? fault;
    case "module":
      return typeof value === "string" && value !== "" ? parseModule(value, raw.folder) : fault;
    case "reward":
      return typeof value === "string" && value !== "" ? parseReward(value, raw.folder) : fault;
    case "optional-path":
    case "optional-module":
      if (typeof value !== "string") return fault;
      return value === "" ? { value: null } : existing(resolve(raw.folder, value));
    case "optional-text":
      return typeof value === "string" ? { value: value === "" ? null : value } : fault;
    case "text":
      return typeof value === "string" && value !== "" ? { value } : fault;
  }
}

/** Reads text of the environment or a flag the way TOML would read the bare word. */
function untextual(kind: FieldKind, text: string): unknown {
  if ((kind === "integer" || kind === "number") && /^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text)) return Number(text);
  if (kind === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

function parseModule(value: string, folder: string): Parsed {
  return isPathOfModule(value) ? existing(resolve(folder, value)) : { value };
}

/** A module is imported, another file is a program that is started, and an address is that of a service. */
function parseReward(value: string, folder: string): Parsed {
  if (/^https?:/i.test(value)) return parseAddress(value);
  if (!/[\\/.]/.test(value) || /\.[cm]?[jt]s$/.test(value)) return parseModule(value, folder);
  const found = existing(resolve(folder, value));
  return "value" in found ? executable(String(found.value)) : found;
}

function parseAddress(value: string): Parsed {
  const url = URL.parse(value);
  if (!url || !/^https?:$/.test(url.protocol)) return { fault: "is no http address" };
  const hasSecret = url.username !== "" || url.password !== "";
  return hasSecret ? { fault: "must not hold a name or password: everybody in the job sees it" } : { value: url.href };
}

/** A program is started without a shell, so it says by itself what runs it. */
function executable(path: string): Parsed {
  if (isExecutableFile(path)) return { value: path };
  const fix = `chmod +x ${path}, and begin it with what runs it, such as #!/usr/bin/env python3`;
  return { fault: `${path} is no program that can be started: ${fix}` };
}

/** The path of a file that is there: a module that is missing should not be noticed by a replica first. */
function existing(path: string): Parsed {
  return existsSync(path)
    ? { value: path }
    : { fault: `${path} does not exist; paths in a job file start at the file` };
}

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    // Whatever keeps it from being started, the fix is the same.
    return false;
  }
}

function parseUnit(value: unknown, parse: (text: string) => number): Parsed | null {
  if (typeof value !== "string") return null;
  try {
    return { value: parse(value) };
  } catch (error) {
    return { fault: messageOf(error) };
  }
}

function parseSource(
  value: unknown,
  { folder, seed }: { readonly folder: string; readonly seed: number },
): Parsed | null {
  const match = typeof value === "string" ? /^(seed|folder|checkpoint)(?::(.+))?$/.exec(value) : null;
  const [, kind, rest] = match ?? [];
  if (kind === "seed") {
    const given = rest === undefined ? seed : Number(rest);
    return Number.isSafeInteger(given) ? { value: { kind, seed: given } } : { fault: `${shown(rest)} is not a seed` };
  }
  return kind && rest ? { value: { kind, path: resolve(folder, rest) } } : null;
}
