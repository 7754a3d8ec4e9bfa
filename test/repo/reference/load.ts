/** Collects what the reference pages are written from, by importing the packages' sources. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { definedErrors, type ErrorDefinition } from "../../../packages/base/src/internal.ts";
import type { envelopeSchema, messageTable, statusSchema, subjectTable } from "../../../packages/protocol/src/index.ts";
import type { Field } from "../../../packages/runtime/src/config/index.ts";
import { packageNames, root, sourcesOf, textOf } from "../checks/repository.ts";

/** Lower layers first: an error belongs to the first package whose modules define it. */
const layers = [
  "base",
  "protocol",
  "machines",
  "transport",
  "collectives",
  "checkpoint",
  "engine",
  "runtime",
  "actors",
];

/** The errors that one package defines, by code. */
export interface PackageErrors {
  readonly packageName: string;
  readonly errors: ReadonlyMap<string, ErrorDefinition>;
}

/** What the pages are written from. */
export interface ReferenceData {
  readonly errors: readonly PackageErrors[];
  readonly messages: typeof messageTable;
  readonly subjects: typeof subjectTable;
  readonly envelopeSchema: typeof envelopeSchema;
  readonly statusSchema: typeof statusSchema;
  /** Of the release. */
  readonly version: string;
  /** The keys of a job file. */
  readonly fields: readonly Field[];
}

/** Imports every module that defines errors, package by package. */
export async function loadReferenceData(): Promise<ReferenceData> {
  const errors: PackageErrors[] = [];
  const known = new Set<string>();
  const others = packageNames.filter((name) => !layers.includes(name));
  for (const packageName of [...layers, ...others]) {
    for (const file of filesThatDefineErrors(packageName)) await import(pathToFileURL(join(root, file)).href);
    const fresh = [...definedErrors()].filter(([code]) => !known.has(code));
    for (const [code] of fresh) known.add(code);
    errors.push({ packageName, errors: new Map(fresh) });
  }
  // Only now, so that the errors of the protocol were not defined before its turn came.
  const protocol = await import("../../../packages/protocol/src/index.ts");
  const { fields: common, fieldsOfTable } = await import("../../../packages/runtime/src/config/index.ts");
  const { embeddedEngines } = await import("../../../packages/engine/src/embedded/index.ts");
  const { EngineRegistry } = await import("../../../packages/engine/src/index.ts");
  const { workerAdapterOf } = await import("../../../packages/engine/src/worker/index.ts");
  const { servedAdapterOf } = await import("../../../packages/engine/src/served/index.ts");
  const served = (["openai", "sglang", "vllm"] as const).map((kind) => [kind, servedAdapterOf(kind, {})] as const);
  const further = new EngineRegistry([["worker", workerAdapterOf({})], ...served]);
  const named = ["worker", "openai", "sglang", "vllm"].map((name) => further.tableOf(name));
  const tables = [embeddedEngines.tableOf("embedded"), ...named];
  const fields = [...common, ...tables.flatMap(fieldsOfTable)];
  const { messageTable: messages, subjectTable: subjects, envelopeSchema, statusSchema } = protocol;
  const { version } = JSON.parse(textOf("package.json")) as { readonly version: string };
  return { errors, messages, subjects, envelopeSchema, statusSchema, version, fields };
}

function filesThatDefineErrors(packageName: string): string[] {
  return sourcesOf(packageName)
    .filter(({ text }) => /\bdefineErrors\(\s*"/.test(text))
    .map(({ fileName }) => fileName);
}
