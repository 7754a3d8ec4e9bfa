/**
 * `muster sim`: jobs in virtual time with faults, every invariant checked. The simulator is a package of development, so it is loaded
 * only when it is asked for.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { exitCodes, makeFolderSync } from "@muster/runtime";
import { type Command, Option } from "commander";
import { loadSimulator, type Simulator } from "../composition/simulator.ts";
import { errors } from "../errors.ts";
import { findNatsServer } from "../run/broker.ts";
import { durationOf } from "./common.ts";
import { listed } from "./list.ts";

type Profile = Parameters<Simulator["drawScenario"]>[1];
type RunResult = Awaited<ReturnType<Simulator["runScenario"]>>;
type CanaryResult = Awaited<ReturnType<Simulator["runCanary"]>>;

interface Options {
  readonly seeds?: string;
  readonly seed?: string;
  readonly profile: Profile;
  readonly workers: string;
  readonly minutes?: string;
  readonly replay?: string;
  readonly out: string;
  readonly canaries?: boolean;
  readonly sample?: string;
  readonly bug?: string;
  readonly shrink: boolean;
  readonly requireCoverage?: boolean;
  readonly realBroker?: boolean;
  readonly json?: boolean;
}

const profiles: readonly Profile[] = [
  "quiet",
  "swarm",
  "kills",
  "broker",
  "llama3",
  "lease-broken",
  "fleet",
  "storage",
  "stragglers",
  "liars",
  "perjury",
  "thieves",
  "drift",
  "barriers",
  "crowd",
  "multitude",
];

/** Shrinking one failure takes minutes; more than a few at once have one cause. */
const shrunkMax = 3;

/** Adds the command. */
export function addSimCommand(program: Command): void {
  listed(program, "sim")
    .option("--seeds <count>", "how many seeds to run (default: 100; 1 with --seed)")
    .option("--seed <number>", "first seed (default: drawn and printed)")
    .addOption(new Option("--profile <name>", "kinds of faults").choices([...profiles]).default("swarm"))
    .option("--workers <count>", "seeds at a time, each on a core of its own", "1")
    .option("--minutes <count>", "begin no new seed after so many minutes")
    .option("--replay <file>", "run the scenario of a file instead, as a failing seed writes it")
    .option("--out <folder>", "where the scenarios of failing seeds are written", "runs/sim")
    .option("--no-shrink", "keep faults that a failing seed does not need")
    .option(
      "--require-coverage",
      "fail when a failpoint was never reached with one of its actions; few that are left get seeds for themselves",
    )
    .option("--canaries", "run deliberate bugs instead; each must be seen")
    .option("--sample <count>", "so many of the deliberate bugs; the seed says which")
    .addOption(
      new Option("--real-broker", "run the seeds in real time, with production's transport on a nats-server").conflicts(
        [...["bug", "canaries", "replay", "requireCoverage"]],
      ),
    )
    .option("--bug <name>", "switch a deliberate bug on, to see that the seeds fail")
    .option("--json", "write one line of JSON; of seeds: nodeHours, faultsInjected, violations, speedUp and more")
    .action(async (options: Options) => {
      const simulator = await loadSimulator();
      process.exitCode = (await runAs(simulator, options)) ? exitCodes.ok : exitCodes.failed;
    });
}

async function runAs(simulator: Simulator, options: Options): Promise<boolean> {
  if (options.replay !== undefined) return await replay(simulator, options.replay);
  return options.canaries ? await runCanaries(simulator, options) : await runSeeds(simulator, options);
}

async function replay(simulator: Simulator, file: string): Promise<boolean> {
  const { why, scenario, bug } = simulator.readScenario(textOf(file));
  const result = await simulator.runAndCompare(scenario, bugOf(simulator, bug));
  const isGood = result.violations.length === 0;
  process.stdout.write(`${why}\n${isGood ? `holds, log hash ${result.hash}` : simulator.failureText(result)}\n`);
  return isGood;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw errors.OptionInvalid({ option: "replay", value: file, reason: messageOf(error) }, error);
  }
}

async function runSeeds(simulator: Simulator, options: Options): Promise<boolean> {
  const firstSeed = firstSeedOf(options);
  const seeds = options.seeds === undefined ? (options.seed === undefined ? 100 : 1) : countOf("seeds", options.seeds);
  const { profile } = options;
  if (options.requireCoverage && !simulator.coverageOf(profile, {}))
    throw errors.OptionInvalid({
      option: "require-coverage",
      value: profile,
      reason: "is a profile without failpoints",
    });
  const say = (text: string): void => void (options.json || process.stdout.write(`${text}\n`));
  say(`first seed ${firstSeed}, profile ${profile}, commit ${commit()}`);
  const makeBug = bugOf(simulator, options.bug ?? null);
  const withBug: Simulator["runSeed"] = (seed, kind, { isRepeated } = { isRepeated: false }) =>
    simulator.runSeed(seed, kind, makeBug ? { isRepeated, makeBug } : { isRepeated });
  const workers = makeBug || options.realBroker ? [] : workersOf(simulator, options);
  const result = await simulator.runMany({
    profile,
    firstSeed,
    seeds,
    nowMs: () => performance.now(),
    ...(options.minutes === undefined ? {} : { timeMs: durationOf("minutes", `${options.minutes}m`) }),
    ...(options.requireCoverage ? { isComplete: true } : {}),
    ...(makeBug ? { runners: [withBug] } : {}),
    ...(workers.length > 1 ? { runners: workers.map(({ runSeed }) => runSeed) } : {}),
    ...(options.realBroker ? { runners: [onBroker(simulator)] } : {}),
    onRun: (run) => {
      if (run.violations.length > 0) say(simulator.failureText(run));
    },
  });
  for (const { close } of workers) await close();
  const failed: unknown[] = [];
  for (const [i, run] of result.failed.entries()) {
    if (options.realBroker) {
      // In virtual time it may well hold, so there is nothing to shrink.
      say(`again: muster sim --real-broker --profile ${profile} --seed ${run.scenario.seed}`);
      failed.push({ seed: run.scenario.seed, violations: run.violations });
      continue;
    }
    const { file, faults } = await keep(simulator, run, { ...options, shrink: options.shrink && i < shrunkMax });
    say(
      `seed ${run.scenario.seed} needs ${faults} of ${run.scenario.faults.length} faults: muster sim --replay ${file}`,
    );
    failed.push({ seed: run.scenario.seed, violations: run.violations, hash: run.hash, file });
  }
  const missed = options.requireCoverage ? (result.coverage?.never ?? []) : [];
  say(simulator.summaryText(result, missed.length > 0 ? 1 : 0));
  if (options.json) {
    const sums = {
      faultsInjected: simulator.injectedIn(result),
      violations: result.failed.reduce((sum, { violations }) => sum + violations.length, 0),
      speedUp: simulator.speedUpOf(result),
    };
    process.stdout.write(`${JSON.stringify({ commit: commit(), ...result, ...sums, failed })}\n`);
  }
  if (missed.length > 0) process.stderr.write(`never reached, by failpoint and action:\n${missed.join("\n")}\n`);
  return result.failed.length === 0 && missed.length === 0;
}

/** Runs a seed in real time, on a nats-server of its own. */
function onBroker(simulator: Simulator): Simulator["runSeed"] {
  const natsServer = findNatsServer(process.env);
  return (seed, profile) => simulator.runOnBroker(simulator.realScenario(seed, profile), natsServer);
}

/** Writes the scenario of a failure, shrunk to what it needs. */
async function keep(
  simulator: Simulator,
  { scenario, violations, hash }: RunResult,
  { out, shrink, bug }: Pick<Options, "out" | "shrink" | "bug">,
): Promise<{ readonly file: string; readonly faults: number }> {
  const [first] = violations;
  const makeBug = bugOf(simulator, bug ?? null);
  const small = shrink ? await simulator.shrink(scenario, first?.invariant ?? "", makeBug) : scenario;
  const file = join(out, `${scenario.profile}-${scenario.seed}.json`);
  const why = `${first?.invariant}: ${first?.detail}`;
  makeFolderSync(out);
  writeFileSync(file, `${JSON.stringify({ why, bug, commit: commit(), hash, scenario: small }, null, 2)}\n`);
  return { file, faults: small.faults.length };
}

/** How to make the deliberate bug of that name; `undefined` for none. */
function bugOf(simulator: Simulator, name: string | null) {
  if (name === null) return undefined;
  const canary = simulator.canaries.find((known) => known.name === name);
  if (!canary) throw errors.OptionInvalid({ option: "bug", value: name, reason: "is no deliberate bug" });
  return () => canary.make();
}

async function runCanaries(simulator: Simulator, options: Options): Promise<boolean> {
  const first = options.sample === undefined ? 0 : firstSeedOf(options);
  const sample = options.sample === undefined ? simulator.canaries.length : countOf("sample", options.sample);
  const chosen = simulator.canaries.map((_, i, all) => all[(i + first) % all.length]).slice(0, sample);
  const workers = workersOf(simulator, options);
  const results: CanaryResult[] = [];
  const work = async (run: (name: string) => Promise<CanaryResult>): Promise<void> => {
    for (let canary = chosen.shift(); canary; canary = chosen.shift()) {
      const result = await run(canary.name);
      results.push(result);
      if (!options.json) process.stdout.write(`${simulator.canaryText(result)}\n`);
    }
  };
  await Promise.all(workers.map(({ runCanary }) => work(runCanary)));
  for (const { close } of workers) await close();
  if (options.json) process.stdout.write(`${JSON.stringify(results)}\n`);
  else process.stdout.write(`${simulator.canariesText(results, simulator.canaries.length)}\n`);
  return results.every(({ caughtBy }) => caughtBy !== null);
}

function workersOf(simulator: Simulator, { workers, canaries }: Options) {
  const count = countOf("workers", workers);
  if (count < 1 || count > 64)
    throw errors.OptionInvalid({ option: "workers", value: workers, reason: "is not 1 to 64" });
  return count === 1 && !canaries ? [] : Array.from({ length: count }, () => simulator.startWorker());
}

function firstSeedOf({ seed }: Options): number {
  return seed === undefined ? Math.floor(Math.random() * 2 ** 31) : countOf("seed", seed);
}

/** The commit of the sources, or `unknown` outside of a checkout. */
function commit(): string {
  const git = spawnSync("git", ["rev-parse", "--short=12", "HEAD"], { cwd: import.meta.dirname, timeout: 5_000 });
  return git.status === 0 ? git.stdout.toString("utf8").trim() : "unknown";
}

function countOf(option: string, value: string): number {
  const count = Number(value);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw errors.OptionInvalid({ option, value, reason: "is not a whole number" });
}
