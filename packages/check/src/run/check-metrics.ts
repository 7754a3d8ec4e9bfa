/** `metrics.jsonl` and `summary.json` must say what the events say of the steps that stand. */
import { join } from "node:path";
import { type Body, figureNameOf, stepFigures } from "@muster/protocol";
import { z } from "zod";
import type { Standing } from "./commits.ts";
import { readEventLine } from "./event-line.ts";
import type { Findings } from "./findings.ts";
import { linesOf, type ReadingOptions } from "./lines.ts";
import { partNumbers, partsIn } from "./parts.ts";
import { lastRow, type RunFolder, readIfThere } from "./run-folder.ts";

type Commit = Body<"step.committed">;

/** What of a line is of the commit alone; the rest is of the clock of the run, and of who held what. */
const fields: readonly (readonly [name: string, key: keyof Commit])[] = [
  ...(["step", "lineage", "version"] as const).map((key) => [key, key] as const),
  ...stepFigures.map(({ field }) => [figureNameOf(field), field] as const),
];

const metricsSchema = z.looseObject({ step: z.number(), lineage: z.number(), version: z.number() });

type Metrics = Readonly<z.infer<typeof metricsSchema>>;

const summarySchema = z.object({
  steps: z.number(),
  weight_version: z.number(),
  weights_hash: z.string(),
  lost: z.number(),
  doubled: z.number(),
});

/** What the run printed at its end. */
export type Summary = z.infer<typeof summarySchema>;

const metricsFile = "metrics.jsonl";
const summaryFile = "summary.json";

/** What the metrics are compared with. */
export interface MetricsOptions extends ReadingOptions {
  readonly findings: Findings;
  readonly standing: Standing;
  /** True where events are gone whose metrics may be there. */
  readonly mayBeginBefore: boolean;
}

/** Reads the summary; `null` when there is none that can be read. */
export function readSummary({ path }: RunFolder, findings: Findings): Summary | null {
  const text = readIfThere(join(path, summaryFile));
  if (text === null) {
    findings.skip(summaryFile, "there is none: nothing was committed, or it was removed");
    return null;
  }
  findings.at({ file: summaryFile });
  try {
    return summarySchema.parse(JSON.parse(text));
  } catch {
    findings.add("file", "this is no summary of a run");
    return null;
  }
}

/** Compares the lines with the commits of the last row of events. @returns How many lines were compared. */
export async function checkMetrics(
  folder: RunFolder,
  summary: Summary | null,
  options: MetricsOptions,
): Promise<number> {
  const { findings } = options;
  const parts = partsIn(folder.path, "metrics");
  const events = folder.events.slice(lastRow(folder));
  if (parts.length === 0 || events.length === 0) {
    findings.skip(metricsFile, "there is none: nothing was committed, or it was removed");
    return 0;
  }
  const isCutOff = (partNumbers(folder.path, "metrics")[0] ?? 1) > 1;
  const check = new MetricsCheck({ ...options, summary, isCutOff }, standingCommits(folder.path, events, options));
  return await check.all(folder.path, parts);
}

interface LinesOptions extends MetricsOptions {
  readonly summary: Summary | null;
  /** The parts with the first lines are gone. */
  readonly isCutOff: boolean;
}

/** Compares them one by one. */
class MetricsCheck {
  readonly #options: LinesOptions;
  readonly #commits: AsyncGenerator<Commit, undefined>;
  /** The next one that stands; `null` when there are no more. */
  #next: Commit | null = null;
  #compared = 0;
  #last = 0;
  /** The first and the last step of which only the metrics are left. */
  #alone: readonly [number, number] | null = null;

  constructor(options: LinesOptions, commits: AsyncGenerator<Commit, undefined>) {
    this.#options = options;
    this.#commits = commits;
  }

  async all(path: string, parts: readonly string[]): Promise<number> {
    const { findings, summary } = this.#options;
    await this.#advance();
    try {
      for (const file of parts)
        for await (const { number, text } of linesOf(join(path, file), this.#options)) {
          findings.at({ file, line: number });
          if (!(await this.#line(metricsOf(text)))) return this.#compared;
        }
      if (this.#next) missing(this.#next, this.#last, summary, this.#options);
      return this.#compared;
    } finally {
      if (this.#alone) findings.skip(`metrics of steps ${this.#alone.join(" to ")}`, "their events are gone");
      await this.#commits.return(undefined);
    }
  }

  async #advance(): Promise<void> {
    this.#next = (await this.#commits.next()).value ?? null;
  }

  /** @returns False when there is no sense in what follows. */
  async #line(found: Metrics | null): Promise<boolean> {
    const { findings } = this.#options;
    if (!found) {
      findings.add("file", "this line is no metrics of a step");
      return false;
    }
    if (this.#isBefore(found)) return true;
    await this.#passOver(found);
    const commit = this.#next;
    if (!commit) {
      findings.add("S15", `metrics of step ${found.step}, which no event commits`);
      return false;
    }
    if (found.lineage !== commit.lineage || found.version !== commit.version) {
      this.#differs(found, commit);
      return false;
    }
    compare(found, commit, findings);
    this.#compared += 1;
    this.#last = commit.step;
    await this.#advance();
    return true;
  }

  /** True for metrics of a step whose event is gone. */
  #isBefore({ version, step }: Metrics): boolean {
    const isBefore =
      this.#options.mayBeginBefore && this.#compared === 0 && (this.#next === null || version < this.#next.version);
    if (isBefore) this.#alone = [this.#alone?.[0] ?? step, step];
    return isBefore;
  }

  /** Passes over the commits before the first line, where the parts with their lines were dropped. */
  async #passOver(found: Metrics): Promise<void> {
    const first = this.#next;
    if (!this.#options.isCutOff || this.#compared > 0 || !first || found.version <= first.version) return;
    while (this.#next && this.#next.version < found.version) await this.#advance();
    this.#options.findings.skip(
      `metrics of steps ${first.step} to ${found.step - 1}`,
      "they were dropped: a run keeps the newest ones (--history of muster run)",
    );
  }

  #differs(found: Metrics, commit: Commit): void {
    const { findings, summary } = this.#options;
    if (isStale(summary, this.#options)) findings.skip(metricsFile, staleBecause);
    else
      findings.add(
        "file",
        `metrics of version ${found.version} in lineage ${found.lineage}; the next step that stands is ${commit.step}, version ${commit.version} in lineage ${commit.lineage}`,
      );
  }
}

const staleBecause = "the run was killed before it had written it";

/** The run may have gone on after its summary and metrics were written. */
function isStale(summary: Summary | null, { standing }: MetricsOptions): boolean {
  return !summary || !standing.isEnded;
}

function missing(next: Commit, last: number, summary: Summary | null, options: MetricsOptions): void {
  const { findings } = options;
  findings.at({ file: metricsFile });
  if (summary && options.standing.isEnded && summary.steps > last)
    findings.add(
      "file",
      `the metrics end with step ${last}, the summary that was written with them with step ${summary.steps}`,
    );
  else findings.skip(`metrics from step ${next.step} on`, staleBecause);
}

function compare(found: Metrics, commit: Commit, findings: Findings): void {
  for (const [name, key] of fields) {
    const told = commit[key] ?? null;
    // What an earlier version of Muster wrote has fewer figures.
    if (!(name in found)) continue;
    findings.require(
      found[name] === told,
      "file",
      () => `${name} of step ${commit.step} is ${String(found[name])} here, and ${String(told)} in the events`,
    );
  }
}

function metricsOf(text: string | null): Metrics | null {
  try {
    return metricsSchema.safeParse(JSON.parse(text ?? "")).data ?? null;
  } catch {
    return null;
  }
}

/** Commits that stand, in the order of the files, which is that of their versions. */
async function* standingCommits(
  path: string,
  files: readonly string[],
  { standing, signal, onBytes }: MetricsOptions,
): AsyncGenerator<Commit, undefined> {
  let lastVersion = 0;
  for (const file of files)
    for await (const { text } of linesOf(join(path, file), { signal, onBytes })) {
      if (!text?.includes('"kind":"step.committed"')) continue;
      const line = readEventLine(text, "");
      const fact = typeof line === "string" ? null : line.fact;
      if (fact?.kind !== "step.committed" || !standing.has(fact.body) || fact.body.version <= lastVersion) continue;
      lastVersion = fact.body.version;
      yield fact.body;
    }
}

/** What the run printed at its end must be what its last event says. */
export function checkSummary(summary: Summary, ended: Body<"job.ended">, findings: Findings): void {
  findings.at({ file: summaryFile });
  findings.require(summary.lost === 0, "S15", () => `the run itself counted ${summary.lost} trajectories as lost`);
  findings.require(
    summary.doubled === 0,
    "S16",
    () => `the run itself counted ${summary.doubled} groups as trained twice`,
  );
  if (summary.steps !== ended.step && summary.weight_version < ended.version) {
    findings.skip(summaryFile, staleBecause);
    return;
  }
  findings.require(
    summary.weight_version === ended.version,
    "file",
    () => `weight_version is ${summary.weight_version}, the job ended with version ${ended.version}`,
  );
  const digest = ended.sections.find(({ name }) => name === "weights")?.digest ?? "";
  findings.require(
    summary.weights_hash === digest,
    "S10",
    () => `weights_hash is ${summary.weights_hash}, the job ended with ${digest}`,
  );
}
