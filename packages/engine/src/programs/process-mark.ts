/** What the processes of a program carry, so that they are found when it is over: a mark in their environment, and a limit that stays without one. Linux only. */
import { randomUUID } from "node:crypto";
import { endProcess } from "./end-process.ts";
import { drawKeptLimit, keptLimitOf, withKeptLimit } from "./kept-limit.ts";
import { numbersIn, textOf } from "./proc-files.ts";

/** The variable with the mark. */
const variable = "MUSTER_WORKER_MARK";

/** The mark of one life of a program. */
export class ProcessMark {
  readonly text = randomUUID();
  readonly limit = drawKeptLimit();

  /** What its environment has of it. */
  get env(): Readonly<Record<string, string>> {
    return { [variable]: this.text };
  }

  /** The words that start it. */
  words(words: readonly string[]): readonly string[] {
    return this.limit === null ? words : withKeptLimit(this.limit, words);
  }
}

/** Ends every process that carries one of the marks, also those that left its session or have another environment. @returns How many there were. */
export function endMarked(...marks: readonly ProcessMark[]): number {
  const texts = new Set(marks.map(({ text }) => `${variable}=${text}`));
  const limits = new Set(marks.map(({ limit }) => limit));
  limits.delete(null);
  const isMarked = (pid: number): boolean =>
    limits.has(keptLimitOf(pid)) ||
    textOf(`/proc/${pid}/environ`)
      .split("\0")
      .some((one) => texts.has(one));
  return numbersIn("/proc").filter((pid) => pid !== process.pid && isMarked(pid) && endProcess(pid)).length;
}
