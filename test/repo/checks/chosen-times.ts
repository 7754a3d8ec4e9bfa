/** Times of the data plane: one table has them all, with their reasons, and its defaults are those of a job file. */
import type { Finding } from "./finding.ts";

/** The table. */
export const timesTable = "native/src/core/limits.h";

const time = /\b(?:Milliseconds|(?:std::chrono::)?(?:micro|milli|nano)?seconds)(?:\s+\w+)?\s*[({]\s*[1-9][\d']*\s*[)}]/;

/** Times that are written down in another file than the table. */
export function checkChosenTimes(file: string, text: string): readonly Finding[] {
  return text
    .split("\n")
    .flatMap((line, i) =>
      time.test(line.replace(/\/\/.*/, ""))
        ? [{ file, line: i + 1, message: `a time of its own: give it a name and a reason in ${timesTable}` }]
        : [],
    );
}

/** The times of `NetworkTimes` as the table has them: name with `Ms`, and milliseconds. */
export function networkTimesOf(table: string): Readonly<Record<string, number>> {
  const [, body = ""] = /struct NetworkTimes \{([\s\S]*?)\n\};/.exec(table) ?? [];
  const times = [...body.matchAll(/^ {2}Milliseconds (\w+)\{([\d']+)\};/gm)];
  return Object.fromEntries(times.map(([, name, ms]) => [`${name}Ms`, Number(ms?.replaceAll("'", ""))]));
}
