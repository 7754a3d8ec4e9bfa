/**
 * Responses that people can read: of the groups that samplers showed, those that were trained, in steps that stand. Each is a line of `samples.jsonl`;
 * the first and the newest ones go into the report.
 */
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { EventMessage } from "@muster/client";
import type { Body } from "@muster/protocol";
import type { SampleRecord } from "../report/index.ts";

type Shown = Body<"samples.shown">;
type Committed = Pick<Body<"step.committed">, "step" | "lineage" | "version" | "places">;

/** What samples are kept with. */
export interface SampleFileOptions {
  /** Folder of the run; `null` to write nothing. */
  readonly directory: string | null;
  /** Writes; what can not be written is told of. @returns False when it was not written. */
  readonly attempt: (path: string, write: () => void) => boolean;
  /** Size beyond which the older half goes. Default 32 MiB. */
  readonly bytesMax?: number;
}

const bytesMaxDefault = 32 * 1024 ** 2;
/** Steps of which samples or a commit wait for the other. */
const waitingSteps = 128;
/** Lines for the report. */
const newestMax = 24;

/** Keeps the samples of one run. */
export class SampleFile {
  readonly #options: SampleFileOptions;
  readonly #shown = new Map<string, Shown>();
  readonly #commits = new Map<number, Committed>();
  /** `<lineage>/<key>` of those that have their lines: a job that goes back trains the same groups again. */
  readonly #joined = new Set<string>();
  #first: readonly SampleRecord[] = [];
  #newest: SampleRecord[] = [];
  #bytes = 0;
  #isBegun = false;

  constructor(options: SampleFileOptions) {
    this.#options = options;
  }

  take({ kind, body }: EventMessage): void {
    if (kind === "samples.shown") this.#heard(body);
    else if (kind === "step.committed") this.#committed(body);
    else if (kind === "job.ended") this.#forget((record) => record.lineage < body.lineage && record.step > body.step);
  }

  /** Those of the first step that has any, and the newest ones, in order. */
  get samples(): readonly SampleRecord[] {
    const isKnown = (record: SampleRecord): boolean => this.#newest.includes(record);
    return [...this.#first.filter((record) => !isKnown(record)), ...this.#newest];
  }

  #heard(shown: Shown): void {
    this.#shown.set(keyOf(shown), shown);
    const commit = this.#commits.get(shown.step);
    if (commit) this.#join(commit);
  }

  #committed({ step, lineage, version, places = [] }: Committed): void {
    const known = this.#commits.get(step);
    if (known && known.lineage >= lineage) return;
    this.#forget((record) => record.lineage < lineage && record.step >= step);
    for (const [other, commit] of this.#commits)
      if ((commit.lineage < lineage && other >= step) || other < step - waitingSteps) this.#commits.delete(other);
    this.#commits.set(step, { step, lineage, version, places });
    this.#join({ step, lineage, version, places });
    for (const [key, shown] of this.#shown) if (shown.step < step - waitingSteps) this.#shown.delete(key);
    for (const key of this.#joined) if (!this.#shown.has(key.slice(key.indexOf("/") + 1))) this.#joined.delete(key);
  }

  /** Samples of a commit that were heard by now; what was trained is told by its place, so nothing that somebody else drew is taken for it. */
  #join({ step, lineage, places = [] }: Committed): void {
    for (const { index, streamSeq } of places) {
      const key = keyOf({ step, index, streamSeq });
      const shown = this.#shown.get(key);
      if (!shown || this.#joined.has(`${lineage}/${key}`)) continue;
      this.#joined.add(`${lineage}/${key}`);
      this.#add(recordsOf(shown, lineage));
    }
  }

  #add(records: readonly SampleRecord[]): void {
    if (this.#first.length === 0) this.#first = records;
    this.#newest = [...this.#newest, ...records].slice(-newestMax);
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join("");
    this.#write((path) => {
      if (this.#isBegun) appendFileSync(path, text, { mode: 0o600 });
      else writeFileSync(path, text, { mode: 0o600 });
    });
    this.#isBegun = true;
    this.#bytes += Buffer.byteLength(text);
    const { bytesMax = bytesMaxDefault } = this.#options;
    if (this.#bytes > bytesMax) this.#rewrite((lines) => newestHalf(lines, bytesMax / 2));
  }

  /** Forgets what the job left behind. */
  #forget(isMeant: (record: SampleRecord) => boolean): void {
    if (![...this.#first, ...this.#newest].some(isMeant)) return;
    this.#first = this.#first.filter((record) => !isMeant(record));
    this.#newest = this.#newest.filter((record) => !isMeant(record));
    this.#rewrite((lines) => lines.filter((line) => !isMeant(JSON.parse(line) as SampleRecord)));
  }

  #rewrite(keep: (lines: readonly string[]) => readonly string[]): void {
    this.#write((path) => {
      if (!existsSync(path)) return;
      const lines = readFileSync(path, "utf8").split("\n");
      // A disk that was full may have cut one.
      const text = keep(lines.filter((line) => line.endsWith("}")))
        .map((line) => `${line}\n`)
        .join("");
      writeFileSync(`${path}.new`, text, { mode: 0o600 });
      renameSync(`${path}.new`, path);
      this.#bytes = Buffer.byteLength(text);
    });
  }

  #write(write: (path: string) => void): void {
    const { directory, attempt } = this.#options;
    if (directory === null) return;
    const path = join(directory, samplesName);
    attempt(path, () => write(path));
  }
}

/** The file's name in the folder of a run. */
export const samplesName = "samples.jsonl";

const keyOf = ({ step, index, streamSeq }: Pick<Shown, "step" | "index" | "streamSeq">): string =>
  `${step}.${index}/${streamSeq}`;

function newestHalf(lines: readonly string[], bytes: number): readonly string[] {
  let left = bytes;
  const from = lines.findLastIndex((line) => {
    left -= Buffer.byteLength(line) + 1;
    return left < 0;
  });
  return lines.slice(from + 1);
}

function recordsOf({ step, index, version, replica, prompt, answer, responses }: Shown, lineage: number) {
  return responses.map(
    ({ sample, text, tokens, status, reward, components, metadata, error }): SampleRecord => ({
      ...{ step, lineage, group: `${step}.${index}`, sample, version, replica, prompt, answer: answer ?? null },
      ...{ completion: text, tokens, status, reward, error: error ?? null },
      components: components ? Object.fromEntries(components.map(({ name, value }) => [name, value])) : null,
      metadata: metadata === undefined ? null : objectIn(metadata),
    }),
  );
}

/** A sampler says that it is an object as JSON; `null` of anything else. */
function objectIn(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;
  } catch {
    return null;
  }
}
