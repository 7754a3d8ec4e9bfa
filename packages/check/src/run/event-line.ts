/**
 * The form of a line of `events.jsonl`. Each ends with a sum over itself and all lines before it, so that a line that was changed, doubled or lost
 * is seen where that happened. The sum finds damage and mistakes; it is no signature.
 */
import { createHash } from "node:crypto";
import { messageOf } from "@muster/base";
import { flawOf, type KindOf, messageTable } from "@muster/protocol";
import { z } from "zod";
import type { PublicFact } from "../fact-checker.ts";

/** What a line holds beside its sum. */
export interface EventFields {
  /** Place in the stream of the broker. */
  readonly seq: number;
  /** ISO 8601. */
  readonly at: string;
  readonly from: string;
  readonly term: number;
  readonly kind: string;
  readonly body: object;
  /** Since the beginning of the job. */
  readonly at_ms: number;
}

/** A line and its sum, which the next line needs. */
export interface EventLine {
  readonly text: string;
  readonly sum: string;
}

const sumDigits = 16;
const sumText = new RegExp(`,"sum":"([0-9a-f]{${sumDigits}})"\\}$`);

/** Writes a line after one with the sum `previous`; the first one has an empty one before it. Pure. */
export function eventLine(fields: EventFields, previous: string): EventLine {
  const content = JSON.stringify(fields);
  const sum = sumOf(previous, content);
  return { text: `${content.slice(0, -1)},"sum":"${sum}"}`, sum };
}

function sumOf(previous: string, content: string): string {
  return createHash("sha256").update(previous).update(content).digest("hex").slice(0, sumDigits);
}

/** True for the first line of a row: it follows no other one, as that of a part does which is written after another. Pure. */
export function beginsRow(text: string): boolean {
  const found = sumText.exec(text);
  return found === null || sumOf("", `${text.slice(0, found.index)}}`) === found[1];
}

/** Place in the stream and sum of a line; `null` for what is none of a run. Pure. */
export function placeOf(text: string): { readonly seq: number; readonly sum: string } | null {
  const seq = /^\{"seq":(\d{1,15}),/.exec(text)?.[1];
  return seq === undefined ? null : { seq: Number(seq), sum: sumText.exec(text)?.[1] ?? "" };
}

const fieldsSchema = z.object({
  seq: z.number().int().positive(),
  at: z.string(),
  from: z.string(),
  term: z.number().int().nonnegative(),
  kind: z.string(),
  body: z.record(z.string(), z.unknown()),
});

/** What a line says. */
export interface ReadLine {
  readonly seq: number;
  /** ISO 8601. */
  readonly at: string;
  /** `null` when this version does not know the kind. */
  readonly fact: PublicFact | null;
  /** Kind, as it stands there. */
  readonly kind: string;
  /** Sum that stands in the line; `null` in files of before there was one. */
  readonly sum: string | null;
  /** True when the sum is that of the line after the one before. */
  readonly isInOrder: boolean;
}

/** Reads a line that follows one with the sum `previous`. @returns What it says, or why it is none. Pure. */
export function readEventLine(text: string, previous: string): ReadLine | string {
  const parsed = parse(text);
  if (typeof parsed === "string") return parsed;
  const { seq, at, term, kind, body } = parsed;
  const found = sumText.exec(text);
  const sum = found?.[1] ?? null;
  const isInOrder = found === null || sumOf(previous, `${text.slice(0, found.index)}}`) === sum;
  if (!isPublic(kind)) return { seq, at, fact: null, kind, sum, isInOrder };
  const flaw = flawOf(kind, body);
  return flaw ?? { seq, at, fact: { kind, body, term } as PublicFact, kind, sum, isInOrder };
}

function parse(text: string): z.infer<typeof fieldsSchema> | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `it is not JSON (${messageOf(error)})`;
  }
  const { data, error } = fieldsSchema.safeParse(value);
  const issue = error?.issues[0];
  return data ?? `${issue?.path.join(".") || "it"}: ${issue?.message ?? "is none"}`;
}

function isPublic(kind: string): kind is KindOf<"event"> {
  return kind in messageTable && messageTable[kind as keyof typeof messageTable].direction === "event";
}
