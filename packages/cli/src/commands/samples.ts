/** `muster samples`: prompts, responses and rewards of a run, to read. */
import type { Clock } from "@muster/base";
import { type ExitCode, exitCodes, systemClock } from "@muster/runtime";
import type { Command } from "commander";
import { runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { type FoundRun, findRun } from "../job/find-run.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { describeRun } from "../job/run-state.ts";
import type { SampleRecord } from "../report/index.ts";
import { readSamples } from "../run/read-samples.ts";
import { sampleText } from "../view/sample-text.ts";
import { listed } from "./list.ts";

interface Options {
  readonly job?: string;
  readonly runs: string;
  readonly step?: string;
  readonly limit: string;
  readonly follow?: boolean;
  readonly json?: boolean;
}

const limitDefault = "10";
const lookEveryMs = 500;
/** Lines whose printing is remembered: more than are in a file between two looks. */
const printedMax = 100_000;

/** Adds the command. */
export function addSamplesCommand(program: Command): void {
  listed(program, "samples")
    .option("--job <name>", "name of the job (default: the newest one)")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--step <number>", "only those of this step")
    .option("--limit <number>", "how many at most", limitDefault)
    .option("--follow", "go on with those that come, until the job ends")
    .option("--json", "write one line of JSON per response")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) => show(options, signal));
    });
}

async function show(options: Options, signal: AbortSignal): Promise<ExitCode> {
  const run = findRun(options);
  const step = options.step === undefined ? null : numberOf("step", options.step);
  const limit = numberOf("limit", options.limit);
  const isMeant = (sample: SampleRecord): boolean => step === null || sample.step === step;
  const found = readSamples(run.directory).filter(isMeant);
  if (found.length === 0 && !options.follow) {
    process.stderr.write(`muster: ${noneOf(run, step)}\n`);
    return exitCodes.ok;
  }
  for (const sample of found.slice(-limit)) print(sample, options);
  if (options.follow) await follow(run, { printed: found, isMeant, options }, signal);
  return exitCodes.ok;
}

/** Prints what comes; a job that goes back has lines taken out, and others put in. */
async function follow(
  run: FoundRun,
  {
    printed,
    isMeant,
    options,
  }: {
    readonly printed: readonly SampleRecord[];
    readonly isMeant: (sample: SampleRecord) => boolean;
    readonly options: Options;
  },
  signal: AbortSignal,
): Promise<void> {
  const clock = systemClock();
  let known = new Set(printed.map(keyOf));
  for (;;) {
    const isOver = describeRun(run.directory, run.job).state !== "running";
    const all = readSamples(run.directory).filter(isMeant);
    for (const sample of all) if (!known.has(keyOf(sample))) print(sample, options);
    known = new Set(all.slice(-printedMax).map(keyOf));
    if (isOver || signal.aborted) return;
    await pause(clock, signal);
  }
}

function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      cancel();
      signal.removeEventListener("abort", wake);
      resolve();
    };
    const cancel = clock.after(lookEveryMs, wake);
    signal.addEventListener("abort", wake, { once: true });
  });
}

const keyOf = ({ lineage, group, sample }: SampleRecord): string => `${lineage}/${group}/${sample}`;

function print(sample: SampleRecord, { json }: Options): void {
  process.stdout.write(`${json ? JSON.stringify(sample) : sampleText(sample)}\n`);
}

function noneOf({ job, directory }: FoundRun, step: number | null): string {
  const which = step === null ? "no samples" : `no samples of step ${step}`;
  return `${which} of job ${job} in ${directory}: they come with the commit of a step, unless samples.groups = 0`;
}

function numberOf(option: string, value: string): number {
  const number = Number(value);
  if (Number.isSafeInteger(number) && number >= 1) return number;
  throw errors.OptionInvalid({ option, value, reason: "is no whole number from 1 on" });
}
