/** Takes a member out of JSON as it was written, so that numbers which JavaScript can not hold stay what they are. Pure. */

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const opening = new Set([0x7b, 0x5b]);
const closing = new Set([0x7d, 0x5d]);

/** A member of the outermost object: from its name to the comma or brace behind it. */
interface Member {
  readonly name: unknown;
  readonly from: number;
  readonly to: number;
}

/** The object without its members of this name, all other bytes as they were. `json` has been found to be an object before. */
export function withoutMember(json: Buffer, name: string): Buffer {
  const kept = membersOf(json).filter((member) => member.name !== name);
  const parts = kept.map(({ from, to }) => json.subarray(from, to));
  const joined = parts.flatMap((part, i) => (i === 0 ? [part] : [Buffer.from(","), part]));
  return Buffer.concat([Buffer.from("{"), ...joined, Buffer.from("}")]);
}

function membersOf(json: Buffer): readonly Member[] {
  const members: Member[] = [];
  let depth = 0;
  let from = 0;
  let name: unknown;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] as number;
    if (byte === quote) at = endOfText(json, at);
    else if (opening.has(byte)) {
      if (depth++ === 0) from = at + 1;
    } else if (closing.has(byte)) {
      if (--depth === 0 && name !== undefined) members.push({ name, from, to: at });
    } else if (depth === 1 && byte === colon) name = JSON.parse(json.toString("utf8", from, at));
    else if (depth === 1 && byte === comma) {
      members.push({ name, from, to: at });
      from = at + 1;
    }
  }
  return members;
}

/** Place of the quote that ends the text that begins here. */
function endOfText(json: Buffer, from: number): number {
  let at = from + 1;
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1;
  return at;
}
