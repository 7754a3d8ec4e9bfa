/** Scenarios as files: what a run writes when it fails, and what `regressions/` keeps of failures that were fixed. */
import { jobConfigSchema } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import { errors } from "../errors.ts";
import { drawScenario, isProfile } from "./draw-scenario.ts";

/** A scenario and why it is kept. */
export interface ScenarioFile {
  /** What went wrong, in one sentence. */
  readonly why: string;
  readonly scenario: Scenario;
  /** Name of the deliberate bug that it fails with; `null` for none. */
  readonly bug: string | null;
}

type Plain = Readonly<Record<string, unknown>>;

/**
 * Reads the text of a scenario file. Fields that a job did not have when the file was written get the values that its seed draws
 * today, and fields that jobs do not have any more are left out.
 *
 * @throws MUSTER_ERR_SIM_SCENARIO_INVALID
 */
export function readScenario(text: string): ScenarioFile {
  const file = parse(text);
  const given = file.scenario;
  if (typeof file.why !== "string" || !isPlain(given)) throw invalid("it is not {why, scenario}");
  const { seed, profile } = given;
  if (typeof seed !== "number" || !Number.isSafeInteger(seed))
    throw invalid(`seed ${String(seed)} is not a whole number`);
  if (typeof profile !== "string" || !isProfile(profile)) throw invalid(`profile ${String(profile)} is not known`);
  const drawn = drawScenario(seed, profile);
  const { devices, ...rest } = drawn.config;
  // Nodes of a file that names no devices have none to give.
  const base = isPlain(given.config) && "devices" in given.config ? { ...rest, devices } : rest;
  const config = jobConfigSchema.safeParse(merged(base, given.config ?? {}));
  if (!config.success) throw invalid(config.error.issues[0]?.message ?? "its job is not valid");
  const bug = typeof file.bug === "string" ? file.bug : null;
  return { why: file.why, bug, scenario: { ...drawn, ...given, config: config.data } };
}

function parse(text: string): Plain {
  try {
    const value: unknown = JSON.parse(text);
    if (isPlain(value)) return value;
  } catch (error) {
    throw invalid(String(error));
  }
  throw invalid("it is not an object");
}

function invalid(reason: string): Error {
  return errors.SimScenarioInvalid({ reason });
}

function isPlain(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What is given wins, and fields that a job has no more are left out; lists are taken whole. */
function merged(base: unknown, given: unknown): unknown {
  if (!isPlain(base) || !isPlain(given)) return given;
  const fields = Object.keys(base).map((key) => [key, key in given ? merged(base[key], given[key]) : base[key]]);
  return Object.fromEntries(fields);
}
