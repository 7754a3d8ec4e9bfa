/**
 * Processes that outlived the node which started them. Each replica's process is written down with the time of its start, so that a
 * later node ends exactly that process and never another one that got its number. Reads /proc, hence Linux.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Clock, withDeadline } from "@muster/base";
import { z } from "zod";

/** A process as it was written down. */
export interface ProcessNote {
  readonly id: string;
  /** Node that started it. */
  readonly node: string;
  readonly pid: number;
  /** Start in clock ticks since the host's boot, as /proc has it. */
  readonly startTicks: number;
}

const noteSchema = z.strictObject({
  id: z.string(),
  node: z.string(),
  pid: z.number().int().positive(),
  startTicks: z.number().int(),
});

const pollMs = 10;
const endTimeoutMs = 5_000;

/** The notes of one job on this host. */
export class ProcessNotes {
  readonly #folder: string;

  /** @param directory - Folder of the job's run. */
  constructor(directory: string) {
    this.#folder = join(directory, "pids");
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  /** Writes a process down. One that has ended already leaves no note. */
  write(id: string, node: string, pid: number): void {
    const startTicks = startTicksOf(pid);
    if (startTicks === null) return;
    const note: ProcessNote = { id, node, pid, startTicks };
    writeFileSync(this.#path(id), JSON.stringify(note), { mode: 0o600 });
  }

  /** Forgets a process that has ended, unless another one was written down since. */
  erase(id: string, pid: number): void {
    if (this.of(id)?.pid === pid) rmSync(this.#path(id), { force: true });
  }

  /** The note of a replica, `null` when there is none that can be read. */
  of(id: string): ProcessNote | null {
    try {
      return noteSchema.safeParse(JSON.parse(readFileSync(this.#path(id), "utf8"))).data ?? null;
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return null;
      throw error;
    }
  }

  /** Notes of the processes that a node started. */
  by(node: string): readonly ProcessNote[] {
    const ids = readdirSync(this.#folder).flatMap((name) => (name.endsWith(".json") ? [name.slice(0, -5)] : []));
    return ids.flatMap((id) => this.of(id) ?? []).filter((note) => note.node === node);
  }

  #path(id: string): string {
    return join(this.#folder, `${id}.json`);
  }
}

/** Ends a process of an earlier life with its group, and waits until it is gone. @throws MUSTER_ERR_DEADLINE_EXPIRED after 5 s. */
export async function endLeftover(note: ProcessNote, clock: Clock): Promise<void> {
  if (!isAlive(note)) return;
  signalGroup(note.pid, "SIGKILL");
  const until = async (signal: AbortSignal): Promise<void> => {
    while (isAlive(note) && !signal.aborted) await new Promise<void>((resolve) => clock.after(pollMs, resolve));
  };
  await withDeadline(until, { what: `the end of ${note.id}, process ${note.pid}`, timeoutMs: endTimeoutMs, clock });
}

/** Sends a signal to a process group. @returns False when no process of it is left. */
export function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

function isAlive({ pid, startTicks }: ProcessNote): boolean {
  return startTicksOf(pid) === startTicks;
}

/** When a process started, `null` when there is none, or when it only waits to be reaped. */
function startTicksOf(pid: number): number | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may contain anything; what follows the last one is numbers.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? null : Number(fields[19]);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ESRCH";
}
