/** Runs one seed, and in sync mode also the quiet run that it must equal. */
import type { Bug } from "../cluster/cluster.ts";
import type { Scenario } from "../cluster/scenario.ts";
import { drawScenario, type Profile } from "./draw-scenario.ts";
import { type RunResult, runScenario } from "./run-scenario.ts";

/** Runs a seed. */
export async function runSeed(seed: number, profile: Profile): Promise<RunResult> {
  return await runAndCompare(drawScenario(seed, profile));
}

/**
 * Runs a scenario; in sync mode its last weights must be those of the same job without faults (the invariant is named `quiet`).
 * A deliberate bug is in both runs, as a real one would be.
 */
export async function runAndCompare(scenario: Scenario, makeBug?: () => Bug): Promise<RunResult> {
  const result = await runScenario(scenario, makeBug?.());
  if (scenario.config.mode !== "sync" || scenario.faults.length === 0 || result.violations.length > 0) return result;
  const quiet = await runScenario({ ...scenario, faults: [] }, makeBug?.());
  const [found, wanted] = [result, quiet].map(({ end }) => endText(end));
  if (found === wanted) return result;
  const detail = `the job ended with ${found}, without faults it ends with ${wanted}`;
  return { ...result, violations: [{ invariant: "quiet", detail, atMs: result.virtualMs }] };
}

function endText(end: RunResult["end"]): string {
  if (!end) return "nothing";
  const { trained, aborted, quarantined } = end.ledger;
  const digests = end.sections.map(({ name, digest }) => `${name} ${digest}`).join(", ");
  return `version ${end.version}, ${digests}, ${trained} trained, ${aborted} aborted, ${quarantined} quarantined`;
}
