/** One vocabulary: names and texts use the field's terms of docs/concepts/glossary.md, and not words that stood for them before. */
import type { Finding } from "./finding.ts";

/** An earlier word, as it reads once names are taken apart into words, and what to write. */
const earlier: readonly { readonly pattern: RegExp; readonly write: string }[] = [
  { pattern: /\bdoor(s|keeper)?\b/, write: "port, route, endpoint or entry point" },
  { pattern: /\b(the|its|their|his|whose|other|stuck|of|in|s) hands\b|\bhand canaries\b/, write: "handlers" },
  { pattern: /\b(the|a|s|one) mind\b|\bminds? (with|that)\b|\bmind canaries\b/, write: "controller logic" },
  { pattern: /\b(the|its|s|job|run) ears\b/, write: "subscription" },
  { pattern: /\breigns?\b/, write: "term" },
  { pattern: /\bpictures?\b/, write: "status, state, chart or screenshot" },
  {
    pattern: /\bputs? ((it|them|anybody|everybody|nobody|who|each other|(its|the|a|no) \w+) )?out\b/,
    write: "evict, or take out of service",
  },
];

/** A type whose name is a participle says what happened to a thing, and not what it is. */
const participle = /\b(?:interface|type|class) \w*(?:Held|Wanted|Taken|Seen)\b/;

/** They quote the words themselves. */
const quoting = new Set(["test/repo/checks/vocabulary.ts", "test/repo/checks.test.ts"]);

/** Checks the path and the text of one file. */
export function checkVocabulary(file: string, text: string): Finding[] {
  if (quoting.has(file)) return [];
  const path = findingsIn(file).map((message) => ({ file, line: 0, message }));
  const lines = text
    .split("\n")
    .flatMap((line, index) => findingsIn(line).map((message) => ({ file, line: index + 1, message })));
  return [...path, ...lines];
}

function findingsIn(line: string): string[] {
  const words = wordsOf(line);
  const found = earlier.map(({ pattern, write }) => ({ text: pattern.exec(words)?.[0], write }));
  return [...found, { text: participle.exec(line)?.[0], write: "a noun" }].flatMap(({ text, write }) =>
    text === undefined ? [] : [`"${text}": write ${write}`],
  );
}

/** A line as words in lower case: `meteredPorts`, `metered-ports` and `METERED_PORTS` are two words each. */
function wordsOf(line: string): string {
  return line
    .replaceAll(/([a-z\d])([A-Z])/g, "$1 $2")
    .replaceAll(/[^A-Za-z\d]+/g, " ")
    .toLowerCase();
}
