/** How deep JSON of others is nested: what is deeper than this can be parsed, but neither written again nor walked through. */

/** Objects and lists inside of each other, at most. */
export const nestingMax = 128;

const [quote, backslash] = [0x22, 0x5c];

/** True for JSON with more objects and lists inside of each other. What is no JSON may be either. Pure. */
export function isNestedTooDeep(json: string, depthMax = nestingMax): boolean {
  if (json.length <= depthMax) return false;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === quote) at = endOfText(json, at);
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > depthMax) return true;
    } else if (code === 0x7d || code === 0x5d) depth--;
  }
  return false;
}

/** Place of the quote that ends the text that begins here. */
function endOfText(json: string, from: number): number {
  for (let at = json.indexOf('"', from + 1); at > 0; at = json.indexOf('"', at + 1)) {
    let slashes = 0;
    while (json.charCodeAt(at - 1 - slashes) === backslash) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return json.length;
}
