/** What the kernel says of one process: its memory and its start. Linux only. */
import { numbersIn, textOf } from "./proc-files.ts";

/** Anonymous memory of a process and of all that it started and that is still below it, in bytes. Shared regions are no part of it. */
export function memoryOf(pid: number): number {
  const own = /^RssAnon:\s+(\d+) kB$/m.exec(textOf(`/proc/${pid}/status`))?.[1] ?? 0;
  const below = numbersIn(`/proc/${pid}/task`).flatMap((task) =>
    textOf(`/proc/${pid}/task/${task}/children`).split(" ").filter(Boolean).map(Number),
  );
  return 1024 * Number(own) + below.reduce((sum, child) => sum + memoryOf(child), 0);
}

/** When a process began, in ticks since its host did, which tells it from a later one with its number; `null` when there is none. */
export function startOf(pid: number): string | null {
  // The name of the program, in parentheses, may have spaces; the start is the 20th word behind it.
  return textOf(`/proc/${pid}/stat`).split(") ").at(-1)?.split(" ")[19] ?? null;
}
