/** Commands that are printed for people: each works when it is pasted into the terminal in which it was printed. */
import { realpathSync } from "node:fs";
import { delimiter, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { runsDefault } from "./runs.ts";

const program = fileURLToPath(new URL("../../bin/muster.mjs", import.meta.url));

/** A command line of this program. @param args - As a shell hands them over, not quoted. */
export function pasted(...args: readonly string[]): string {
  const start = isOnPath(process.env.PATH ?? "") ? ["muster"] : ["node", nearest(program)];
  return [...start, ...args].map(quoted).join(" ");
}

/** The options by which a command finds a job again. */
export function wayTo(job: string, runs: string): readonly string[] {
  const isUsual = isHere() && resolve(runs) === resolve(runsDefault);
  return ["--job", job, ...(isUsual ? [] : ["--runs", nearest(resolve(runs))])];
}

/** False below an npm script that was called from another folder: the terminal is there, and this process is not. */
function isHere(): boolean {
  return (process.env.INIT_CWD ?? process.cwd()) === process.cwd();
}

function nearest(path: string): string {
  const way = relative(process.cwd(), path);
  return !isHere() || way.startsWith("..") || way === "" ? path : way;
}

function isOnPath(path: string): boolean {
  const found = path.split(delimiter).flatMap((folder) => realPathOf(join(folder, "muster")) ?? []);
  return found[0] === realPathOf(program);
}

function realPathOf(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
