/** A full disk is named at once, with the folder: what comes of it elsewhere (leases that expire, results that nobody takes) names everything but the disk. */
import { statfsSync } from "node:fs";
import { type Clock, every, formatSize, messageOf } from "@muster/base";

/** What a disk watch is made from. */
export interface DiskWatchOptions {
  /** Folders that the job writes to; those that are not there are passed over. */
  readonly folders: readonly string[];
  readonly clock: Clock;
  /** Hears of a disk that is full, once until there is room again. */
  readonly onFull: (detail: string) => void;
}

/** How much room a disk has: none to go on with, enough, or too little to call it over. */
export type Room = "none" | "little" | "enough";

const lookEveryMs = 1_000;
/** With less room than this no checkpoint is written and no broker goes on. */
const fullBytes = 4 * 1024 ** 2;
/** With more than this it is over. */
const roomyBytes = 4 * fullBytes;

/** Looks at the disks of a job, and takes the errors of writing to them. */
export class DiskWatch {
  readonly #options: DiskWatchOptions;
  readonly #full = new Map<string, string>();
  readonly #stop: () => void;

  constructor(options: DiskWatchOptions) {
    this.#options = options;
    this.#look();
    this.#stop = every(options.clock, lookEveryMs, () => this.#look());
  }

  /** What is known of disks that are full, in words; `null` when none is. */
  get trouble(): string | null {
    const [first] = this.#full.values();
    return first ?? null;
  }

  /** Writes. A disk that does not take it is told of, and the job goes on without that file. @returns False when it was not written. */
  attempt(path: string, write: () => void): boolean {
    try {
      write();
      return true;
    } catch (error) {
      this.failed(path, error);
      return false;
    }
  }

  /** Takes the error of somebody who writes to a file. @throws The error, when it is none of the disk. */
  failed(path: string, error: unknown): void {
    const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
    this.#tell(path, `${path} can not be written: ${messageOf(error)}`);
  }

  close(): void {
    this.#stop();
  }

  #look(): void {
    for (const folder of this.#options.folders) {
      const left = bytesLeft(folder);
      if (left === null) continue;
      if (left < fullBytes) this.#tell(folder, `the disk of ${folder} is full: ${formatSize(left)} left`);
      if (left <= roomyBytes) continue;
      for (const path of this.#full.keys()) if (path.startsWith(folder)) this.#full.delete(path);
    }
  }

  #tell(path: string, detail: string): void {
    const isKnown = [...this.#full.keys()].some((known) => path.startsWith(known));
    if (isKnown) return;
    this.#full.set(path, detail);
    this.#options.onFull(detail);
  }
}

/** Room on the disk of a folder; enough where that can not be known. */
export function roomIn(folder: string): Room {
  const left = bytesLeft(folder) ?? Number.POSITIVE_INFINITY;
  if (left < fullBytes) return "none";
  return left > roomyBytes ? "enough" : "little";
}

/** Bytes that this user may still write; `null` where that can not be known. */
function bytesLeft(folder: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === "statfs") return null;
    throw error;
  }
}
