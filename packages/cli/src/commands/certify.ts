/** `muster certify`: which level of determinism a job has on this hardware, proven by runs with and without kills. */
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { needsOfJob } from "@muster/data";
import { type Contradiction, type DeterminismLevel, determinismLevels } from "@muster/engine";
import { type ExitCode, exitCodes } from "@muster/runtime";
import { type Command, Option } from "commander";
import { makeProofFolder, type ProofResult, prove } from "../certify/certify.ts";
import { type Fingerprint, fingerprintOf } from "../certify/fingerprint.ts";
import { promised } from "../certify/verdict.ts";
import { openEngines } from "../composition/engines.ts";
import { loadJobFile } from "../composition/job-file.ts";
import { runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { collect, durationOf, jobFileDefault, stepOf } from "./common.ts";
import { listed } from "./list.ts";

interface Options {
  readonly runs: string;
  readonly out?: string;
  readonly steps: string;
  readonly kills: string;
  readonly level?: DeterminismLevel;
  readonly stepTimeout: string;
  readonly set: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** What is shown of each step, so that as much as possible is compared. */
const shown = ["samples.groups=16", "samples.responses=8", "samples.text_chars=4000"];

const killsMax = 32;

/** Adds the command. */
export function addCertifyCommand(program: Command): void {
  listed(program, "certify")
    .description(
      "run a job in peace and with kills, and prove its level: L0 nothing lost or trained twice, L1 same data, L2 same responses, L3 same weights",
    )
    .argument("[file]", "job file", jobFileDefault)
    .option("--steps <n>", "steps of each run", "15")
    .option(
      "--kills <n>",
      "kills of the second run, in turn of a sampler, a trainer, the controller and everything",
      "4",
    )
    .addOption(new Option("--level <level>", "fail unless this level is proven").choices([...determinismLevels]))
    .option("--step-timeout <duration>", "longest time from one step to the next, a start included", "5m")
    .option("--set <key=value>", "set any key of the job file; may be repeated", collect, [])
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option(
      "--out <folder>",
      "folder of the proof: both runs, verdict.json, verdict.txt (default: a new one in --runs)",
    )
    .option("--json", "end with one line of JSON: the verdict")
    .option("--quiet", "no progress")
    .action(async (file: string, options: Options) => {
      process.exitCode = await untilInterrupted((signal) => certify(file, options, signal));
    });
}

async function certify(file: string, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const steps = stepOf("steps", options.steps) ?? 1;
  const kills = killsOf(options.kills);
  const set = [...shown, ...options.set, `job.steps=${steps}`];
  const { config } = await loadJobFile({ file: resolve(file), set, flags: {} });
  const { policy, rollout } = config.engine;
  const engines = await openEngines([policy.adapter, rollout.adapter], policy.adapter);
  const contradictions = engines.contradictionsOf(config, needsOfJob(config));
  const best = promised(contradictions);
  refuse(options.level, contradictions);
  const folder = resolve(options.out ?? join(options.runs, `certify-${config.job}-${Date.now()}`));
  makeProofFolder(folder);
  const say = (line: string): void => void (options.quiet || process.stderr.write(`${line}\n`));
  for (const { level, text } of contradictions) say(`! ${level} can not hold: ${text}`);
  const proof = await prove({
    args: [resolve(file), ...set.flatMap((one) => ["--set", one])],
    ...{ runs: folder, steps, kills, contradictions, say, signal },
    stepMs: durationOf("step-timeout", options.stepTimeout),
  });
  const wanted = options.level ?? best;
  const verdict = {
    ...{ job: config.job, file: resolve(file), at: new Date().toISOString(), seed: config.seed, steps },
    ...{ set: options.set, ok: isReached(proof.level, wanted), wanted, ...proof, contradictions },
    fingerprint: await fingerprintOf(config, engines),
  };
  const text = textOf(verdict);
  writeFileSync(join(folder, "verdict.json"), `${JSON.stringify(verdict, null, 2)}\n`);
  writeFileSync(join(folder, "verdict.txt"), text);
  say(`\n${text}\nverdict: ${join(folder, "verdict.json")}`);
  if (options.json) process.stdout.write(`${JSON.stringify(verdict)}\n`);
  return verdict.ok ? exitCodes.ok : exitCodes.failed;
}

/** A level that the job itself rules out needs no run. @throws MUSTER_ERR_CERTIFY_LEVEL with all that stands against it */
function refuse(level: DeterminismLevel | undefined, contradictions: readonly Contradiction[]): void {
  if (level === undefined) return;
  const isBelow = (one: Contradiction): boolean =>
    determinismLevels.indexOf(one.level) <= determinismLevels.indexOf(level);
  const against = contradictions.filter(isBelow);
  if (against.length > 0) throw errors.CertifyLevel({ level, against: against.map(({ text }) => text).join("; ") });
}

function isReached(level: DeterminismLevel | null, wanted: DeterminismLevel | null): boolean {
  return wanted !== null && level !== null && determinismLevels.indexOf(level) >= determinismLevels.indexOf(wanted);
}

function killsOf(value: string): number {
  const count = Number(value);
  if (Number.isSafeInteger(count) && count >= 1 && count <= killsMax) return count;
  throw errors.OptionInvalid({ option: "kills", value, reason: `is no number of kills; use 1 to ${killsMax}` });
}

/** What trainers, or samplers, said of their bits; runs that differ in it say so. */
function enginesText({ quiet, killed }: ProofResult["trainers"]): string {
  const textOf = (engines: typeof quiet): string =>
    engines
      .map(({ build, fingerprint }) => `build ${build}, fingerprint ${fingerprint}`)
      .sort()
      .join("; ") || "an engine that does not say it";
  const [first, second] = [textOf(quiet), textOf(killed)];
  return first === second ? first : `${first} in peace; with kills ${second}`;
}

/** The verdict for people. */
function textOf(
  verdict: ProofResult & {
    readonly job: string;
    readonly at: string;
    readonly seed: number;
    readonly steps: number;
    readonly fingerprint: Fingerprint;
  },
): string {
  const { job, at, seed, steps, level, levels, kills, fingerprint } = verdict;
  const done = kills.map(({ victim, afterStep }) => `${victim} after step ${afterStep}`).join(", ");
  return [
    `job ${job}, seed ${seed}: ${steps} steps in peace, and again with kills (${done || "none"}); ${at}`,
    `proven: ${level ?? "nothing"}`,
    ...levels.map((one) => `  ${one.level}  ${one.state}: ${one.how}`),
    `trained with: ${enginesText(verdict.trainers)}`,
    `sampled with: ${enginesText(verdict.samplers)}`,
    `on: ${fingerprint.digest}`,
    ...Object.entries(fingerprint.parts).map(([name, value]) => `  ${name.padEnd(9)}  ${value}`),
    "",
  ].join("\n");
}
