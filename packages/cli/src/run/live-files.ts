/** The files of a run that show how it stands: written anew every few seconds while it goes on, each of them whole at every moment. */
import { join } from "node:path";
import type { Clock } from "@muster/base";
import { htmlReport, type RunRecord } from "../report/index.ts";
import type { DiskWatch } from "./disk-watch.ts";
import type { RunDirectory } from "./run-directory.ts";

/** What live files are made from. */
export interface LiveFilesOptions {
  readonly directory: Pick<RunDirectory, "path" | "write">;
  readonly disk: Pick<DiskWatch, "attempt">;
  readonly clock: Clock;
  readonly record: () => RunRecord;
}

const everyMs = 2_000;
/** Of its time a run spends at most this share with these files, however long it gets. */
const shareMax = 0.02;
/** Bytes a second that they may cost, on average. */
const bytesPerSMax = 1024 ** 2;

/** Keeps the files up to date. */
export class LiveFiles {
  readonly #options: LiveFilesOptions;
  #isChanged = false;
  #isOver = false;
  #cancel: () => void = () => {};

  constructor(options: LiveFilesOptions) {
    this.#options = options;
    this.#wait(everyMs);
  }

  /** Something happened that the files do not show yet. */
  changed(): void {
    this.#isChanged = true;
  }

  /** Writes them for the last time. */
  end(record: RunRecord): void {
    this.close();
    this.#write(record);
  }

  /** Writes nothing from now on. */
  close(): void {
    this.#isOver = true;
    this.#cancel();
  }

  #wait(delayMs: number): void {
    if (this.#isOver) return;
    this.#cancel = this.#options.clock.after(delayMs, () => this.#turn());
  }

  #turn(): void {
    if (!this.#isChanged) {
      this.#wait(everyMs);
      return;
    }
    this.#isChanged = false;
    const { clock, record } = this.#options;
    const startedMs = clock.now();
    const bytes = this.#write(record());
    const spentMs = clock.now() - startedMs;
    this.#wait(Math.max(everyMs, spentMs / shareMax, (bytes / bytesPerSMax) * 1000));
  }

  /** @returns How many bytes that were. */
  #write(record: RunRecord): number {
    const { directory, disk } = this.#options;
    // The summary last: what it counts is in the other.
    const files = {
      "report.html": htmlReport(record),
      "summary.json": `${JSON.stringify(record.summary, null, 2)}\n`,
    };
    for (const [name, text] of Object.entries(files))
      disk.attempt(join(directory.path, name), () => directory.write(name, text));
    return Object.values(files).reduce((sum, text) => sum + text.length, 0);
  }
}
