/** Finds the line of a key in a TOML file, for messages only: the parser keeps values, not places. */

/** Line from 1 of `section.key`, or `null` when it is written in a way this reader does not follow (inline tables). */
export function lineOfKey(text: string, key: string): number | null {
  let section = "";
  for (const [index, line] of text.split("\n").entries()) {
    const header = /^\s*\[\s*([\w.-]+)\s*\]/.exec(line);
    if (header) section = `${header[1]}.`;
    const name = /^\s*([\w.-]+)\s*=/.exec(line)?.[1];
    if (name !== undefined && section + name === key) return index + 1;
  }
  return null;
}
