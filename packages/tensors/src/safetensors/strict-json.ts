/** JSON text that two readers could understand as two things: a key that comes twice, a number that is not written in plain digits. */

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/** True when an object in `text` has a key twice. Linear in time, without recursion. @param value - What `JSON.parse` made of the text. */
export function repeatsKey(text: string, value: unknown): boolean {
  return scan(text).keys !== keysOf(value);
}

/** Where valid JSON text has something else than objects, lists, text and whole numbers in plain digits; `null` when it has nothing else. */
export function unplainAt(text: string): number | null {
  return scan(text).unplainAt;
}

/** Counts the keys of valid JSON text, which are strings that a colon follows, and finds what stands outside of strings. */
function scan(text: string): { readonly keys: number; readonly unplainAt: number | null } {
  let keys = 0;
  let unplain: number | null = null;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code !== quote) {
      if (unplain === null && !isPlain(code)) unplain = i;
      continue;
    }
    i++;
    while (i < text.length && text.charCodeAt(i) !== quote) i += text.charCodeAt(i) === backslash ? 2 : 1;
    let next = i + 1;
    while (text.charCodeAt(next) <= 0x20) next++;
    if (text.charCodeAt(next) === colon) keys++;
  }
  return { keys, unplainAt: unplain };
}

/** White space, digits, and the characters `[ ] { } : ,`. */
function isPlain(code: number): boolean {
  return (
    code <= 0x20 || (code >= 0x30 && code <= 0x3a) || code === 0x2c || (code & 0xdf) === 0x5b || (code & 0xdf) === 0x5d
  );
}

function keysOf(value: unknown): number {
  let count = 0;
  const open = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    const values = Object.values(next);
    if (!Array.isArray(next)) count += values.length;
    for (const inner of values) open.push(inner);
  }
  return count;
}
