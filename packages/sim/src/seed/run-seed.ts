/** Runs one seed, and in sync mode also the quiet run that it must equal. */

import type { Violation } from "@muster/check/internal";
import type { ChangedSettings } from "@muster/protocol";
import type { Bug } from "../cluster/bug.ts";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { drawScenario, type Profile } from "./draw-scenario.ts";
import { type RunResult, runScenario } from "./run-scenario.ts";
import type { SeedResult } from "./tally.ts";

/** What joins and ticks at other moments may cost a job, ms. */
const tickMarginMs = 1_000;

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
 * Runs a scenario; in sync mode its last weights must be those of the same job without faults, with the same settings changed from the same steps on (the invariant is named `quiet`), and where nothing
 * is wrong but that some are slow it must be done in their time (L8). A deliberate bug is in both runs, as a real one would be.
 */
export async function runAndCompare(scenario: Scenario, makeBug?: () => Bug): Promise<RunResult> {
  return (await compared(scenario, makeBug)).result;
}

async function compared(
  scenario: Scenario,
  makeBug?: () => Bug,
): Promise<{ readonly result: RunResult; readonly quiet: RunResult | null }> {
  const result = await runScenario(scenario, makeBug?.());
  const isJudged = isFunctionOfSeed(scenario) || slownessOf(scenario) !== null;
  if (!isJudged || result.violations.length > 0) return { result, quiet: null };
  const quiet = await runScenario(
    { ...scenario, faults: result.changes.map(orderedAtOnce), controllers: 1 },
    makeBug?.(),
  );
  const violation = isHopeless(result) || isHopeless(quiet) ? null : violationBeside(scenario, result, quiet);
  return { result: violation ? { ...result, violations: [violation] } : result, quiet };
}

/** A change of settings that is ordered before anything is sampled, for the step from which it counted. */
function orderedAtOnce(body: ChangedSettings, i: number): Fault {
  return { kind: "command", atMs: i + 1, id: `ordered-${i}`, command: { kind: "job.change", body }, againMs: [] };
}

/** True when the job failed as it had to, after no one knows how many steps, or lost its journal: then there is nothing to compare. */
function isHopeless({ violations, end }: RunResult): boolean {
  return violations.length === 0 && end?.outcome !== "done";
}

/** What is wrong with a run beside the quiet one: its weights and its ledger where those must not depend on faults, and the time that it took. */
export function violationBeside(scenario: Scenario, result: RunResult, quiet: RunResult): Violation | null {
  const atMs = result.virtualMs;
  const [found, wanted] = [result, quiet].map(({ end }) => endText(end));
  if (isFunctionOfSeed(scenario) && found !== wanted && !isGivenUpMore(result, quiet)) {
    const detail = `the job ended with ${found}, without faults it ends with ${wanted}`;
    return { invariant: "quiet", detail, atMs };
  }
  const slowness = slownessOf(scenario);
  const allowedMs = (slowness ?? 1) * quiet.virtualMs + tickMarginMs;
  if (slowness === null || atMs <= allowedMs) return null;
  const detail = `with somebody ${slowness.toFixed(2)} times as slow the job took ${Math.round(atMs)} ms, without ${Math.round(quiet.virtualMs)}`;
  return { invariant: "L8", detail, atMs };
}

/** True when faults cost the job groups that it has without them: each of them is judged by who was lost over it (S20). */
function isGivenUpMore(result: RunResult, quiet: RunResult): boolean {
  return (result.end?.ledger.quarantined ?? 0) > (quiet.end?.ledger.quarantined ?? 0);
}

/** How slow the slowest is, where nothing else is wrong; else `null`. */
function slownessOf({ faults, controllers, work }: Scenario): number | null {
  const factors = faults.flatMap((fault) => (fault.kind === "slow" ? [fault.factor] : []));
  const isAll = factors.length === faults.length && factors.length > 0 && (controllers ?? 1) === 1;
  const isPeace = work.killerRate === 0 && (work.hangerRate ?? 0) === 0 && (work.trainerKillerRate ?? 0) === 0;
  return isAll && isPeace ? Math.max(...factors) : null;
}

/** True when the result of the job must not depend on what goes wrong. */
function isFunctionOfSeed({ config, work, faults, controllers }: Scenario): boolean {
  return config.mode === "sync" && !work.driftRate && (faults.length > 0 || (controllers ?? 1) > 1);
}

function endText(end: RunResult["end"]): string {
  if (!end) return "nothing";
  const { trained, aborted, quarantined } = end.ledger;
  const digests = end.sections.map(({ name, digest }) => `${name} ${digest}`).join(", ");
  return `version ${end.version}, ${digests}, ${trained} trained, ${aborted} aborted, ${quarantined} quarantined`;
}
