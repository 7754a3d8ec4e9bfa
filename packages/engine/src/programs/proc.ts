/** The processes of a worker as the kernel knows them: by a mark in their environment, which what they start inherits. Linux only. */
import { readdirSync, readFileSync } from "node:fs";

/** The variable with the mark of one life of a worker. */
export const workerMark = "MUSTER_WORKER_MARK";

/** Ends every process that carries one of the marks, also those that left its session. @returns How many there were. */
export function endMarked(...marks: readonly string[]): number {
  const wanted = new Set(marks.map((mark) => `${workerMark}=${mark}`));
  let ended = 0;
  for (const pid of numbersIn("/proc")) {
    const isMarked =
      pid !== process.pid &&
      textOf(`/proc/${pid}/environ`)
        .split("\0")
        .some((one) => wanted.has(one));
    if (!isMarked) continue;
    try {
      process.kill(pid, "SIGKILL");
      ended += 1;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
  return ended;
}

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

function numbersIn(folder: string): number[] {
  try {
    return readdirSync(folder).map(Number).filter(Number.isInteger);
  } catch {
    return []; // it ended just now, or this system has no such folder
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // it ended just now, or belongs to somebody else
  }
}
