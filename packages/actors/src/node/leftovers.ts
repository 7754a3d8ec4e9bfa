/**
 * Processes that outlived the node which started them. Each replica's process is written down with the time of its start and with the
 * mark of its life, which all that it starts carries: in the environment, and as a limit that an empty environment leaves. So a later node ends exactly those
 * and never others that got their number. Linux only.
 */
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Clock, type Logger, withDeadline } from "@muster/base";
import { endProcess, isOfLife, keptLimitOf } from "@muster/engine";
import { makeOwnFolderSync } from "@muster/runtime";
import { z } from "zod";
import { escapedFrom, isMissing, membersOf, startTicksOf, wasGiven } from "./proc.ts";

/** The variable in which a replica and all that it starts carry the mark of its life. */
export const markVariable = "MUSTER_LIFE_MARK";

/** A process as it was written down. */
export interface ProcessNote {
  readonly id: string;
  /** Node that started it. */
  readonly node: string;
  readonly pid: number;
  /** Start in clock ticks since the host's boot, as /proc has it. */
  readonly startTicks: number;
  /** Value of {@link markVariable} in its environment: no other life has it. */
  readonly mark: string;
  /** Devices that it was given. */
  readonly devices: readonly string[];
}

/** What ending a leftover needs. */
export interface LeftoverTools {
  readonly clock: Clock;
  readonly logger: Logger;
}

const noteSchema = z.strictObject({
  id: z.string(),
  node: z.string(),
  pid: z.number().int().positive(),
  startTicks: z.number().int(),
  mark: z.string().min(1),
  devices: z.array(z.string()).default([]),
});

/** Each look reads the environment of every process of the host. */
const pollMs = 50;
const endTimeoutMs = 5_000;

/** The notes of one job on this host. */
export class ProcessNotes {
  readonly #folder: string;

  /** @param directory - Folder of the job's run. */
  constructor(directory: string) {
    this.#folder = join(directory, "pids");
    makeOwnFolderSync(this.#folder);
  }

  /** Writes a process down. One that has ended already leaves no note. */
  write(note: Omit<ProcessNote, "startTicks">): void {
    const startTicks = startTicksOf(note.pid);
    if (startTicks === null) return;
    const whole: ProcessNote = { ...note, startTicks };
    writeFileSync(this.#path(note.id), JSON.stringify(whole), { mode: 0o600 });
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
    return this.#all().filter((note) => note.node === node);
  }

  /** Notes of processes that must have ended before a replica starts: its own, and those of whoever had one of its devices. */
  inTheWayOf(id: string, devices: readonly string[]): readonly ProcessNote[] {
    const own = this.of(id);
    if (devices.length === 0) return own ? [own] : [];
    return this.#all().filter((note) => note.id === id || note.devices.some((device) => devices.includes(device)));
  }

  #all(): readonly ProcessNote[] {
    const ids = readdirSync(this.#folder).flatMap((name) => (name.endsWith(".json") ? [name.slice(0, -5)] : []));
    return ids.flatMap((id) => this.of(id) ?? []);
  }

  #path(id: string): string {
    return join(this.#folder, `${id}.json`);
  }
}

/** A mark that no life had before. */
export function drawMark(): string {
  return randomUUID();
}

/**
 * Ends what is left of an earlier life, its process, the others of its group, and those that left the group and carry the mark, and waits until they
 * are gone. A group without its first process is ended only when one of the others carries the mark: the number may be another group's by now.
 * @throws MUSTER_ERR_DEADLINE_EXPIRED after 5 s.
 */
export async function endLeftover(note: ProcessNote, { clock, logger }: LeftoverTools): Promise<void> {
  const left = leftOf(note);
  if (left === "unknown") {
    const { id, pid: group } = note;
    logger.warn(
      { id, group, members: membersOf(group) },
      "processes without the mark of the replica's life are left alone",
    );
  }
  if (left === "own") signalGroup(note.pid, "SIGKILL");
  const isLeft = (): boolean => endEscaped(note.pid, note.mark).length > 0 || leftOf(note) === "own";
  const until = async (signal: AbortSignal): Promise<void> => {
    while (isLeft() && !signal.aborted) await new Promise<void>((resolve) => clock.after(pollMs, resolve));
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

/** Ends the processes of a life that left its group, however they did. @returns Those that were there. */
export function endEscaped(pid: number, mark: string): readonly number[] {
  return escapedFrom(pid, (one) => carries(one, mark)).filter(endProcess);
}

/** Whether a process is of the life with this mark. */
function carries(pid: number, mark: string): boolean {
  return isOfLife(keptLimitOf(pid), mark) || wasGiven(pid, markVariable, mark);
}

/** What is left of the group of a life: processes that are its own for certain, some that may be, or none. */
function leftOf({ pid, startTicks, mark }: ProcessNote): "own" | "unknown" | "none" {
  const first = startTicksOf(pid);
  if (first === startTicks) return "own";
  // Linux gives no number to a new process while a group still has it: whoever has it now came after the whole group was gone.
  if (first !== null) return "none";
  const members = membersOf(pid);
  if (members.length === 0) return "none";
  return members.some((member) => carries(member, mark)) ? "own" : "unknown";
}
