/** The project speaks only of itself: no paths of somebody's machine, no notes to self. */
import type { Finding } from "./finding.ts";

const forbidden: readonly { readonly pattern: RegExp; readonly message: string }[] = [
  {
    pattern: /(?<![\w.~@})-])\/(work|home|root|Users|tmp\/\w+)\/\w/,
    message: "absolute path of somebody's machine: write it relative to the repository",
  },
  { pattern: /\b(TO)DO\b|\b(FIX)ME\b|\bXX(X)\b/, message: "note to self: do it, or open an issue" },
];

/** Checks the text of one file. */
export function checkWords(file: string, text: string): Finding[] {
  return text.split("\n").flatMap((line, index) => {
    const broken = forbidden.filter(({ pattern }) => pattern.test(line));
    return broken.map(({ message }) => ({ file, line: index + 1, message }));
  });
}
