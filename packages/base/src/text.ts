/** Texts and lists for people, within bounds. */

const ellipsis = "…";
const encoder = new TextEncoder();

/** The same text in memory of its own. A part of a string keeps the whole of it in memory, however long that is. Pure. */
export const ownText = (text: string): string => JSON.parse(JSON.stringify(text)) as string;

/**
 * A text within both bounds, with "…" where it was cut; a character of two UTF-16 units is never cut in half. What was cut keeps nothing of
 * the rest in memory. Pure.
 *
 * @param charsMax - UTF-16 units, ≥ 1; the length of the result is at most this.
 * @param bytesMax - UTF-8 bytes, ≥ 3; default no bound.
 */
export function clipText(text: string, charsMax: number, bytesMax = Number.POSITIVE_INFINITY): string {
  const isShort = text.length <= charsMax;
  // A unit of UTF-16 is at most three bytes of UTF-8.
  if (isShort && (text.length * 3 <= bytesMax || encoder.encode(text).length <= bytesMax)) return text;
  let end = Math.min(text.length, charsMax - ellipsis.length);
  if (end * 3 + 3 > bytesMax) {
    const { read } = encoder.encodeInto(text.slice(0, end), new Uint8Array(bytesMax - 3));
    end = Math.min(end, read);
  }
  const isHalf = end > 0 && /[\uD800-\uDBFF]/.test(text.charAt(end - 1)) && /[\uDC00-\uDFFF]/.test(text.charAt(end));
  return ownText(text.slice(0, isHalf ? end - 1 : end)) + ellipsis;
}

/** The first of many names in a sentence: `a, b and 198 more`; "" for none. Pure. */
export function listText(names: readonly string[], shownMax = 8): string {
  const shown = names.slice(0, shownMax).join(", ");
  return names.length > shownMax ? `${shown} and ${names.length - shownMax} more` : shown;
}
