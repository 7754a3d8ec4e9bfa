/**
 * `muster sim`: jobs in virtual time with faults, every invariant checked. The simulator is a package of development, so it is loaded
 * only when it is asked for.
 */
import { exitCodes } from "@muster/runtime";
import { type Command, Option } from "commander";
import { errors } from "../errors.ts";
import { durationOf } from "./common.ts";

type Simulator = typeof import("@muster/sim");
type Profile = Parameters<Simulator["runSeed"]>[1];

interface Options {
  readonly seeds?: string;
  readonly seed?: string;
  readonly profile: Profile;
  readonly minutes?: string;
  readonly canaries?: boolean;
  readonly shrink?: boolean;
  readonly json?: boolean;
}

const profiles: readonly Profile[] = ["quiet", "swarm", "kills", "broker"];

/** Adds the command. */
export function addSimCommand(program: Command): void {
  program
    .command("sim")
    .description("simulate jobs with faults in virtual time and check every invariant")
    .option("--seeds <count>", "how many seeds to run (default: 100; 1 with --seed)")
    .option("--seed <number>", "first seed (default: drawn and printed)")
    .addOption(new Option("--profile <name>", "kinds of faults").choices([...profiles]).default("swarm"))
    .option("--minutes <count>", "begin no new seed after so many minutes")
    .option("--shrink", "leave out what a failing seed does not need")
    .option("--canaries", "run deliberate bugs instead; each must be seen")
    .option("--json", "write one line of JSON")
    .action(async (options: Options) => {
      const simulator = await load();
      const isGood = options.canaries ? await runCanaries(simulator, options) : await runSeeds(simulator, options);
      process.exitCode = isGood ? exitCodes.ok : exitCodes.failed;
    });
}

async function load(): Promise<Simulator> {
  try {
    return await import("@muster/sim");
  } catch (error) {
    throw errors.SimulatorMissing({}, error);
  }
}

async function runSeeds(simulator: Simulator, options: Options): Promise<boolean> {
  const firstSeed = options.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : countOf("seed", options.seed);
  const seeds = options.seeds === undefined ? (options.seed === undefined ? 100 : 1) : countOf("seeds", options.seeds);
  const { profile } = options;
  const say = (text: string): void => void (options.json || process.stdout.write(`${text}\n`));
  say(`first seed ${firstSeed}, profile ${profile}`);
  const result = await simulator.runMany({
    profile,
    firstSeed,
    seeds,
    nowMs: () => performance.now(),
    ...(options.minutes === undefined ? {} : { timeMs: durationOf("minutes", `${options.minutes}m`) }),
    onRun: (run) => {
      if (run.violations.length > 0) say(simulator.failureText(run));
    },
  });
  if (options.shrink) for (const failed of result.failed) say(await shrunkText(simulator, failed));
  say(simulator.summaryText(result));
  if (options.json) {
    const failed = result.failed.map(({ scenario, violations, hash }) => ({ seed: scenario.seed, violations, hash }));
    process.stdout.write(`${JSON.stringify({ ...result, failed })}\n`);
  }
  return result.failed.length === 0;
}

async function shrunkText(simulator: Simulator, failed: Awaited<ReturnType<Simulator["runSeed"]>>): Promise<string> {
  const smaller = await simulator.shrink(failed.scenario, failed.violations[0]?.invariant ?? "");
  const count = `${smaller.faults.length} of ${failed.scenario.faults.length} faults`;
  return `seed ${smaller.seed} needs ${count}: ${JSON.stringify(smaller.faults)}`;
}

async function runCanaries(simulator: Simulator, { json }: Options): Promise<boolean> {
  const results = [];
  for (const canary of simulator.canaries) {
    const result = await simulator.runCanary(canary);
    results.push(result);
    if (!json) process.stdout.write(`${simulator.canaryText(result)}\n`);
  }
  const missed = results.filter(({ caughtBy }) => caughtBy === null);
  if (json) process.stdout.write(`${JSON.stringify(results)}\n`);
  else process.stdout.write(`${results.length - missed.length} of ${results.length} deliberate bugs were seen\n`);
  return missed.length === 0;
}

function countOf(option: string, value: string): number {
  const count = Number(value);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw errors.OptionInvalid({ option, value, reason: "is not a whole number" });
}
