/** The little Markdown that the reference pages need. */

const notice = "<!-- Written by `npm run docs`; do not edit. -->";

/** A whole page of paragraphs and tables. */
export function page(title: string, parts: readonly string[]): string {
  return `${[`# ${title}`, notice, ...parts].join("\n\n")}\n`;
}

/** A table; cells are put on one line and their bars escaped. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** Text as code. */
export function code(text: string): string {
  return `\`${text}\``;
}

function cell(text: string): string {
  return text.replace(/\|/g, "\\|").replace(/\s+/g, " ").trim();
}
