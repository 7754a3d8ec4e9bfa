/**
 * `muster chaos`: a real job under a seeded plan of faults, then the same job in peace, and the comparison. The harness is part of the
 * simulator's package, which only development has, so it is loaded only when it is asked for.
 */

import { existsSync } from "node:fs";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { checkId } from "@muster/protocol";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { runsDefault } from "../composition/runs.ts";
import { loadSimulator, type Simulator } from "../composition/simulator.ts";
import { partitionsMissing } from "../doctor/partitions.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { findNatsServer } from "../run/broker.ts";
import { newsOf } from "../run/narrator.ts";
import { collect, jobFileDefault } from "./common.ts";
import { listed } from "./list.ts";

type ChaosOptions = Parameters<Simulator["runWithFaults"]>[0];

interface Options {
  readonly minutes: string;
  readonly seed?: string;
  readonly jobFile: string;
  readonly faults?: string;
  readonly count?: string;
  readonly pause: string;
  readonly quietRun: boolean;
  readonly job?: string;
  readonly runs: string;
  readonly policy: string;
  readonly rollout: string;
  readonly checkpoint: string;
  readonly set: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** Adds the command. */
export function addChaosCommand(program: Command): void {
  listed(program, "chaos")
    .option("--minutes <count>", "how long faults go on", "2")
    .option("--seed <number>", "seed of the plan and of the job (default: drawn and printed)")
    .option("--job-file <file>", "job file", jobFileDefault)
    .option("--faults <kinds>", "kinds of faults, or kind.role, separated by commas (default: all but partition)")
    .option("--count <n>", "as many faults of each kind, one at a time, each once the job has recovered from the last")
    .option("--pause <seconds>", "with --count: least time from one fault to the next", "0")
    .option("--no-quiet-run", "do not run the job in peace to compare it with")
    .option("--job <name>", "name of the run; the quiet run is called <name>-quiet (default: chaos-<seed>-<random>)")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--policy <n>", "policy replicas", "3")
    .option("--rollout <n>", "rollout replicas", "4")
    .option("--checkpoint <n>", "checkpoint actors", "1")
    .option("--set <key=value>", "set any key of the job file; may be repeated", collect, [])
    .option("--json", "end with one line of JSON on standard output")
    .option("--quiet", "no progress")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) => chaos(options, signal));
    });
}

async function chaos(options: Options, signal: AbortSignal): Promise<ExitCode> {
  const harness = await loadSimulator();
  const say = (line: string): void => void (options.quiet || process.stderr.write(`${line}\n`));
  const given = optionsOf(harness, options, { say, signal });
  for (const name of [given.job, `${given.job}-quiet`])
    if (existsSync(join(given.runs, name)))
      throw errors.OptionInvalid({
        option: "job",
        value: name,
        reason: `has been run in ${given.runs}; use a new name`,
      });
  const startedMs = performance.now();
  const before = loadavg()[0] ?? 0;
  say(`job ${given.job}, seed ${given.seed}; again with: muster chaos --seed ${given.seed} --minutes ${given.minutes}`);
  const run = await harness.runWithFaults(given);
  const steps = Math.max(0, ...run.events.flatMap(({ kind, body }) => (kind === "step.committed" ? body.step : [])));
  if (options.quietRun) say(`quiet run of ${steps} steps`);
  const quiet = options.quietRun ? await harness.runQuietly(given, Math.max(1, steps)) : null;
  const result = harness.chaosResult({
    job: given.job,
    seed: given.seed,
    minutes: given.minutes,
    isSync: !given.set.some((one) => one.replaceAll(" ", "") === "job.mode=async"),
    chaos: run,
    quiet,
    load: [before, loadavg()[0] ?? 0],
    wallMs: performance.now() - startedMs,
  });
  say(`\n${harness.chaosText(result)}\n\n  report: ${resolve(given.runs, given.job, "report.html")}`);
  if (options.json) process.stdout.write(`${JSON.stringify(result)}\n`);
  return result.ok ? exitCodes.ok : exitCodes.failed;
}

function optionsOf(
  harness: Simulator,
  options: Options,
  { say, signal }: { readonly say: (line: string) => void; readonly signal: AbortSignal },
): ChaosOptions {
  const seed = options.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : countOf("seed", options.seed);
  const minutes = Number(options.minutes);
  if (!(minutes > 0 && minutes <= 24 * 60))
    throw errors.OptionInvalid({ option: "minutes", value: options.minutes, reason: "is not a number from 0 to 1440" });
  return {
    program: {
      command: [process.execPath, fileURLToPath(new URL("../../bin/muster.mjs", import.meta.url))],
      env: process.env,
    },
    natsServer: findNatsServer(process.env),
    file: resolve(options.jobFile),
    runs: resolve(options.runs),
    job: checkId("job", options.job ?? harness.chaosJobName(seed)),
    seed,
    minutes,
    kinds: kindsOf(harness, options.faults),
    count: options.count === undefined ? null : Math.max(1, countOf("count", options.count)),
    pauseMs: countOf("pause", options.pause) * 1_000,
    replicas: {
      policy: countOf("policy", options.policy),
      rollout: countOf("rollout", options.rollout),
      checkpoint: countOf("checkpoint", options.checkpoint),
    },
    set: options.set,
    say,
    onEvent: (event) => {
      const news = newsOf(event);
      if (news) say(news);
    },
    signal,
  };
}

/** Kinds that need a second host come only when they are asked for: it changes how the data plane connects. */
function kindsOf({ chaosKinds, chaosWishOf }: Simulator, text?: string): ChaosOptions["kinds"] {
  if (text === undefined)
    return chaosKinds.filter((kind) => kind !== "partition").map((kind) => ({ kind, role: null }));
  return text.split(",").map((name) => {
    const wish = chaosWishOf(name);
    const missing = wish?.kind === "partition" ? partitionsMissing() : null;
    if (wish && missing === null) return wish;
    const reason = missing ?? `is no kind of fault; known are ${chaosKinds.join(", ")}, some with a role: kill.policy`;
    throw errors.OptionInvalid({ option: "faults", value: name, reason });
  });
}

function countOf(option: string, value: string): number {
  const count = Number(value);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw errors.OptionInvalid({ option, value, reason: "is not a whole number" });
}
