/** Whether the relative links of a Markdown file lead to files that exist. */
import { posix } from "node:path";
import type { Finding } from "./finding.ts";

/**
 * Checks the links of one Markdown file.
 *
 * @param exists - Tells whether the repository has a path.
 */
export function checkLinks(file: string, text: string, exists: (path: string) => boolean): Finding[] {
  const withoutCode = text.replace(/^```[\s\S]*?^```/gm, (block) => block.replace(/[^\n]/g, ""));
  return withoutCode.split("\n").flatMap((line, index) => {
    const targets = [...line.matchAll(/\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/g)].map((match) => match[1] ?? "");
    const broken = targets.filter((target) => isRelative(target) && !exists(pathOf(file, target)));
    return broken.map((target) => ({ file, line: index + 1, message: `link to ${target} leads nowhere` }));
  });
}

function isRelative(target: string): boolean {
  return !/^[a-z][a-z0-9+.-]*:|^#|^\/\//i.test(target);
}

function pathOf(file: string, target: string): string {
  const path = decodeURIComponent(target.replace(/[#?].*$/, ""));
  return path.startsWith("/") ? path.slice(1) : posix.join(posix.dirname(file), path);
}
