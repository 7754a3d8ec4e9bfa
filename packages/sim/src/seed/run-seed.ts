/** Runs one seed, and in sync mode also the quiet run that it must equal. */
import type { Bug } from "../cluster/bug.ts";
import type { Scenario } from "../cluster/scenario.ts";
import { drawScenario, type Profile } from "./draw-scenario.ts";
import { type RunResult, runScenario } from "./run-scenario.ts";
import type { SeedResult } from "./tally.ts";

interface SeedOptions {
  /** Run twice, to compare the hashes of the logs (S33). */
  readonly isRepeated: boolean;
  readonly makeBug?: () => Bug;
}

/** Runs a seed. */
export async function runSeed(
  seed: number,
  profile: Profile,
  options: SeedOptions = { isRepeated: false },
): Promise<SeedResult> {
  return await runDrawn(drawScenario(seed, profile), options);
}

/** Runs what was drawn for a seed. */
export async function runDrawn(
  scenario: Scenario,
  { isRepeated, makeBug }: SeedOptions = { isRepeated: false },
): Promise<SeedResult> {
  const { result, quiet } = await compared(scenario, makeBug);
  const again = isRepeated ? await runScenario(scenario, makeBug?.()) : null;
  const others = [quiet, again].filter((run) => run !== null);
  const given = { others, isCompared: quiet !== null, isRepeated };
  if (!again || again.hash === result.hash) return { result, ...given };
  const detail = `the log hashes to ${result.hash}, and to ${again.hash} when it is run again`;
  const violation = { invariant: "S33", detail, atMs: result.virtualMs };
  return { result: { ...result, violations: [...result.violations, violation] }, ...given };
}

/**
 * Runs a scenario; in sync mode its last weights must be those of the same job without faults (the invariant is named `quiet`).
 * A deliberate bug is in both runs, as a real one would be.
 */
export async function runAndCompare(scenario: Scenario, makeBug?: () => Bug): Promise<RunResult> {
  return (await compared(scenario, makeBug)).result;
}

async function compared(
  scenario: Scenario,
  makeBug?: () => Bug,
): Promise<{ readonly result: RunResult; readonly quiet: RunResult | null }> {
  const result = await runScenario(scenario, makeBug?.());
  if (!isFunctionOfSeed(scenario) || result.violations.length > 0) return { result, quiet: null };
  const quiet = await runScenario({ ...scenario, faults: [], controllers: 1 }, makeBug?.());
  const [found, wanted] = [result, quiet].map(({ end }) => endText(end));
  if (found === wanted) return { result, quiet };
  const detail = `the job ended with ${found}, without faults it ends with ${wanted}`;
  return { result: { ...result, violations: [{ invariant: "quiet", detail, atMs: result.virtualMs }] }, quiet };
}

/** True when the result of the job must not depend on what goes wrong. */
function isFunctionOfSeed({ config, faults, controllers }: Scenario): boolean {
  return config.mode === "sync" && (faults.length > 0 || (controllers ?? 1) > 1);
}

function endText(end: RunResult["end"]): string {
  if (!end) return "nothing";
  const { trained, aborted, quarantined } = end.ledger;
  const digests = end.sections.map(({ name, digest }) => `${name} ${digest}`).join(", ");
  return `version ${end.version}, ${digests}, ${trained} trained, ${aborted} aborted, ${quarantined} quarantined`;
}
