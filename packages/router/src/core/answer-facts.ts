/** What an engine's answer says about itself, read from the forms of SGLang, vLLM and the OpenAI API. Pure. */
import { isNestedTooDeep } from "@muster/http";
import type { VersionSpan } from "./fence.ts";

/** Facts of an answer or of one event of a stream. */
export interface AnswerFacts {
  /** Sentence of an error that came with status 200. */
  readonly error: string | null;
  /** The last weight version that it names; `null` when it names none. */
  readonly version: string | null;
  /** Which tokens came from which version; one span without bounds known is not listed. */
  readonly spans: readonly VersionSpan[];
}

type Table = Readonly<Record<string, unknown>>;

/** Parses JSON into a table; `null` for anything else, and for what is nested so deep that it could not be written again. */
export function tableOf(text: string): Table | null {
  if (isNestedTooDeep(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isTable(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** True for a JSON object. */
export function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reads the facts of one JSON value: an object, or a list of them, as `/generate` answers `n` > 1 with. */
export function factsOf(value: unknown): AnswerFacts {
  const spans: VersionSpan[] = [];
  let version: string | null = null;
  let error: string | null = null;
  for (const table of Array.isArray(value) ? value : [value]) {
    if (!isTable(table)) continue;
    error ??= errorIn(table);
    for (const place of [table, table.meta_info, table.metadata, firstOf(table.choices)]) {
      if (!isTable(place)) continue;
      version = textOf(place.weight_version) ?? version;
      spans.push(...spansIn(place.weight_versions));
    }
  }
  return { error, version: version ?? spans.at(-1)?.version ?? null, spans };
}

/** A version, which engines write as text or as a number. */
export function textOf(value: unknown): string | null {
  if (typeof value === "number" && Number.isSafeInteger(value)) return `${value}`;
  return typeof value === "string" && value !== "" && value.length <= 128 ? value : null;
}

function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : undefined;
}

const noSpans: readonly VersionSpan[] = [];

function spansIn(value: unknown): readonly VersionSpan[] {
  if (!Array.isArray(value) || value.length > 4096) return noSpans;
  return value.filter(isTable).flatMap(({ version, start, end }) => {
    const text = textOf(version);
    return text !== null && typeof start === "number" && typeof end === "number" ? [{ version: text, start, end }] : [];
  });
}

/** An answer with `error` and nothing generated is an error, whatever its status. */
function errorIn(table: Table): string | null {
  const isError = table.object === "error" || (table.error !== undefined && table.error !== null);
  if (!isError || table.choices !== undefined || table.output_ids !== undefined) return null;
  const inner = isTable(table.error) ? table.error.message : (table.error ?? table.message);
  return typeof inner === "string" ? inner.slice(0, 500) : "the engine answered with an error";
}
