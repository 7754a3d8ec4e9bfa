/** Words and figures for people. Whatever comes from outside is cleaned here before it meets a terminal or a page. */
import { formatDuration } from "@muster/base";

// Sequences that a terminal obeys: CSI, OSC and other strings up to their end, and two-character escapes.
const escapes =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it removes
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;

// Controls, and marks that turn the direction of text or hide in it.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it removes
const invisible = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * Cleans text from outside for one line: no terminal sequences, no control characters, no marks that reorder or hide text, no line
 * breaks. Unpaired surrogates become U+FFFD.
 *
 * @param limit - Longest result in characters; longer text ends with `…`.
 */
export function cleanLine(text: string, limit = 500): string {
  // Cut first, so that a hostile megabyte costs little.
  const clean = text
    .slice(0, limit * 8)
    .replace(/[\t\r\n]+/g, " ")
    .replace(escapes, "")
    .replace(invisible, "");
  return shorten(toWellFormed(clean).trim(), limit);
}

/** Removes control characters other than line breaks, and marks that reorder or hide text. */
export function cleanMarks(text: string): string {
  return toWellFormed(text.replace(invisible, (mark) => (mark === "\n" ? mark : "")));
}

function toWellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

/** Cleans text of several lines as {@link cleanLine} does each of them; at most `linesMax` lines stay. */
export function cleanBlock(text: string, linesMax = 1000): string {
  const lines = text.split(/\r\n|\r|\n/);
  const indented = lines
    .slice(0, linesMax)
    .map((line) => (/^[ \t]*/.exec(line)?.[0] ?? "").replaceAll("\t", "  ") + cleanLine(line));
  return lines.length > linesMax
    ? [...indented, `… ${lines.length - linesMax} more lines`].join("\n")
    : indented.join("\n");
}

/** Shortens to `limit` characters, the last of them `…`. */
export function shorten(text: string, limit: number): string {
  const characters = text.length > limit ? [...text] : null;
  return characters && characters.length > limit ? `${characters.slice(0, limit - 1).join("")}…` : text;
}

/** Writes a number with digits after the point, grouped by thousands; `–` when it is none. */
export function figure(value: number | null | undefined, digits = 0): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return withDigits(digits).format(value);
}

/** By digits after the point: to make one takes longer than a page of figures. */
const formats = new Map<number, Intl.NumberFormat>();

function withDigits(digits: number): Intl.NumberFormat {
  const format =
    formats.get(digits) ??
    new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  formats.set(digits, format);
  return format;
}

/** Writes a share as per cent, `95.1 %`. */
export function percent(share: number | null | undefined, digits = 1): string {
  const text = figure(typeof share === "number" ? share * 100 : share, digits);
  return text === "–" ? text : `${text} %`;
}

/** Writes a large number in few characters: `940`, `38.2k`, `1.25M`. */
export function compact(value: number): string {
  if (!Number.isFinite(value)) return "–";
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

/** Writes a time for people as base does, but below a second in milliseconds: `34 ms`, `1.5 s`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  return Math.abs(ms) < 1000 ? `${Math.round(ms)} ms` : formatDuration(ms);
}

/** Mean of the finite ones of these numbers; `null` of none. */
export function meanOf(values: readonly number[]): number | null {
  const finite = values.filter(Number.isFinite);
  return finite.length === 0 ? null : finite.reduce((sum, value) => sum + value, 0) / finite.length;
}

/** The time of day here, `13:41:02`. */
export function clockTime(wallMs: number): string {
  return new Date(wallMs).toTimeString().slice(0, 8);
}
