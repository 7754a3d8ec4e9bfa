/** Text in the width of a window. Pure; lengths are those of plain text, so colours come later. */

/** A label, a time or a sign, with the blanks behind it: what follows it begins at the same column in all of its rows. */
const label = /^\s*(?:\S+(?: \S+)*?\s{2,})?(?:[-+?!>] )?/;

const indentMax = 24;

/** Breaks a line between words into rows of at most `width` characters; later rows begin where the text of the first one does. A word that is longer stays whole. */
export function wrapped(line: string, width: number): readonly string[] {
  if (line.length <= width) return [line];
  const head = label.exec(line)?.[0] ?? "";
  const indent = " ".repeat(Math.min(head.length, indentMax, Math.floor(width / 2)));
  const rows: string[] = [];
  let row = head;
  let isEmpty = true;
  for (const word of line.slice(head.length).split(" ")) {
    if (!isEmpty && row.length + 1 + word.length > width) {
      rows.push(row.trimEnd());
      row = indent;
      isEmpty = true;
    }
    row += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...rows, row.trimEnd()];
}

/** Breaks each line of a text. */
export function wrappedText(text: string, width: number): string {
  return text
    .split("\n")
    .flatMap((line) => wrapped(line, width))
    .join("\n");
}
