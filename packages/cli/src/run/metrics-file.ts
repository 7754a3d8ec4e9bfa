/** The figures of the steps that stand, a line each, written as they are committed: `metrics.jsonl`, in parts. */

import { readLines } from "@muster/check/files";
import type { EventMessage } from "@muster/client";
import type { StepRecord } from "../report/index.ts";
import { type GrowingOptions, LineParts } from "./line-parts.ts";
import { stepRecordOf, withSpeed } from "./step-record.ts";

type Point = Pick<StepRecord, "lineage" | "version" | "at_ms">;

/** Writes the lines of one run. What a job leaves behind when it goes back goes. */
export class MetricsFile {
  readonly #parts: LineParts;
  /** Of the last line; `null` before the first commit that was heard. */
  #last: Point | null = null;

  constructor(options: GrowingOptions) {
    this.#parts = new LineParts("metrics", options);
  }

  take({ kind, body }: EventMessage, atMs: number): void {
    this.flush();
    const last = this.#last;
    if (kind === "job.ended" && last && body.lineage > last.lineage && body.version < last.version)
      this.#forget(body.version + 1);
    if (kind !== "step.committed" || (last && last.lineage > body.lineage)) return;
    if (!last || last.version >= body.version) this.#forget(body.version);
    const step = withSpeed(stepRecordOf(body, atMs), this.#last?.at_ms ?? 0);
    this.#parts.append(JSON.stringify(step));
    this.#last = step;
  }

  /** Writes what a full disk did not take. */
  flush(): void {
    this.#parts.flush();
  }

  /** Removes the lines of a version and of those after it, also those of a process of before: they are told again. */
  #forget(version: number): void {
    this.#parts.cut((line) => versionOf(line) >= version);
    const last = this.#lastLine();
    this.#last = last === null ? null : (JSON.parse(last) as Point);
  }

  #lastLine(): string | null {
    let last: string | null = null;
    for (const path of this.#parts.paths.slice(-2)) for (const { text } of readLines(path)) last = text;
    return last;
  }
}

/** 0 of what is no line of metrics. */
function versionOf(line: string): number {
  return Number(/^\{"step":\d+,"lineage":\d+,"version":(\d+),/.exec(line)?.[1] ?? 0);
}
