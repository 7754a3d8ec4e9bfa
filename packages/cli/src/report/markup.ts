/** HTML that cannot be injected into: a template escapes everything that is put into it, except what a template made. */
import { cleanMarks } from "./text.ts";

/** HTML or SVG source that is safe to put into a page. Only {@link html} makes it. */
export interface Markup {
  readonly source: string;
}

type Hole = string | number | Markup | readonly (Markup | null)[] | null;

const made = new WeakSet<object>();
const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * Template of HTML or SVG. Text and numbers are cleaned and escaped, so they are safe between tags and in quoted attributes; markup and
 * lists of markup are put in as they are; `null` is nothing.
 */
export function html(parts: TemplateStringsArray, ...holes: readonly Hole[]): Markup {
  const markup = { source: parts.map((part, index) => part + render(holes[index] ?? null)).join("") };
  made.add(markup);
  return markup;
}

function render(hole: Hole): string {
  if (hole === null) return "";
  if (typeof hole === "number") return String(hole);
  if (typeof hole === "string") return cleanMarks(hole).replace(/[&<>"']/g, (character) => entities[character] ?? "");
  if ("source" in hole) return made.has(hole) ? hole.source : "";
  return hole.map(render).join("");
}
