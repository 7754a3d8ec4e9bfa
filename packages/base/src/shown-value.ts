/** What a module returned, as an error says it: with its type, since `0.7` and `"0.7"` look alike. */
import { clipText } from "./text.ts";

/** Longest text that is quoted. */
const textMax = 60;

/** Pure, and runs nothing of the value's own. */
export function shownValue(value: unknown): string {
  if (typeof value === "string") return `the text ${JSON.stringify(clipText(value, textMax))}`;
  if (value === undefined) return "nothing (undefined)";
  if (value === null || typeof value === "number" || typeof value === "boolean") return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : `a value of type ${typeof value}`;
}
