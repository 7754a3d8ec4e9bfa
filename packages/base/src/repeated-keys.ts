/** JSON text that names a key twice: every reader takes the one or the other value, so that two readers may understand two things. */

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/** True when an object in `text` has a key twice. Linear in time, without recursion. @param value - What `JSON.parse` made of the text. */
export function repeatsKey(text: string, value: unknown): boolean {
  return keysIn(text) !== keysOf(value);
}

/** Counts the keys of valid JSON text: strings that a colon follows. */
function keysIn(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) !== quote) continue;
    i++;
    while (i < text.length && text.charCodeAt(i) !== quote) i += text.charCodeAt(i) === backslash ? 2 : 1;
    let next = i + 1;
    while (text.charCodeAt(next) <= 0x20) next++;
    if (text.charCodeAt(next) === colon) count++;
  }
  return count;
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
