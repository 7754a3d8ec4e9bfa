/** Options that several commands share, and how their faults end. */
import { resolve } from "node:path";
import { messageOf, parseDurationMs, parseSizeBytes } from "@muster/base";
import { deviceSchema, devicesMax, doubledOf, perRole, type ReplicaRole, replicaRoles } from "@muster/protocol";
import { type LogLevel, logLevels } from "@muster/runtime";
import { type Command, Option } from "commander";
import { runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";

/** The job file of commands that are given none. */
export const jobFileDefault = "jobs/dates.toml";

/** Most replicas of a role. */
const countMax = 4096;

/** Gathers the values of an option that may be repeated. */
export function collect(value: string, all: readonly string[]): readonly string[] {
  return [...all, value];
}

/** Adds the options by which a command finds a running job. */
export function withLocation(command: Command): Command {
  return command
    .option("--job <name>", "name of the job (default: that of --connection, or the newest one)")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--nats <url>", "address of the job's broker, when it is not on this host")
    .option("--connection <file>", "file that muster credentials wrote on the host that runs the job");
}

/** Values of {@link withLocation}. */
export interface LocationOptions {
  readonly job?: string;
  readonly runs: string;
  readonly nats?: string;
  readonly connection?: string;
}

/** The number of a step that an option names; `undefined` where nothing is said. @throws MUSTER_ERR_OPTION_INVALID */
export function stepOf(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const step = Number(value);
  if (Number.isSafeInteger(step) && step >= 1) return step;
  throw errors.OptionInvalid({ option, value, reason: "is no step; use 1 or more" });
}

/** Adds `--log-level`. */
export function withLogLevel(command: Command): Command {
  return command.addOption(
    new Option("--log-level <level>", "how much is logged").choices([...logLevels]).default("info"),
  );
}

/** Where a job is, with absolute paths. */
export function locationOf(options: LocationOptions) {
  const { job, nats, connection } = options;
  return {
    runs: resolve(options.runs),
    ...(job === undefined ? {} : { job }),
    ...(nats === undefined ? {} : { nats }),
    ...(connection === undefined ? {} : { connection: resolve(connection) }),
  };
}

/** A level that commander has checked. */
export function levelOf(text: string): LogLevel {
  return logLevels.find((level) => level === text) ?? "info";
}

/** A duration option in ms. @throws MUSTER_ERR_OPTION_INVALID */
export function durationOf(option: string, value: string): number {
  try {
    return parseDurationMs(value);
  } catch (error) {
    throw errors.OptionInvalid({ option, value, reason: messageOf(error) }, error);
  }
}

/** A number of seconds, as slime's options give times, in ms. @throws MUSTER_ERR_OPTION_INVALID */
export function secondsOf(option: string, value: string): number {
  const seconds = Number(value);
  if (/^\d+(\.\d+)?$/.test(value) && seconds <= 1e9) return Math.round(seconds * 1000);
  throw errors.OptionInvalid({ option, value: value || '""', reason: "is not a number of seconds, for example 10" });
}

/** A count. @throws MUSTER_ERR_OPTION_INVALID */
export function countOf(option: string, value: string, { min, max }: { readonly min: number; readonly max: number }) {
  const count = Number(value);
  if (/^\d{1,16}$/.test(value) && count >= min && count <= max) return count;
  throw errors.OptionInvalid({ option, value: value || '""', reason: `is not a whole number from ${min} to ${max}` });
}

/** A size option in bytes. @throws MUSTER_ERR_OPTION_INVALID */
export function sizeOf(option: string, value: string): number {
  try {
    return parseSizeBytes(value);
  } catch (error) {
    throw errors.OptionInvalid({ option, value, reason: messageOf(error) }, error);
  }
}

/** A port option. @throws MUSTER_ERR_OPTION_INVALID */
export function portOf(option: string, value: string): number {
  const port = Number(value);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw errors.OptionInvalid({ option, value, reason: "is not a port; use 0 to 65535, 0 for any free one" });
}

/** Most replicas by role, as `--capacity` gives them; `null` for no limit. @throws MUSTER_ERR_OPTION_INVALID */
export function capacityOf(value: string | undefined): Readonly<Record<ReplicaRole, number | null>> {
  if (value === undefined) return perRole(() => null);
  // Who names some roles means that there is no room for the others.
  return { ...perRole(() => 0), ...countsOf("capacity", value.split(",")) };
}

/**
 * Devices, as `--devices` gives them: numbers, ranges of them, names, or `none`; `null` where nothing is said.
 * @throws MUSTER_ERR_OPTION_INVALID
 */
export function devicesOf(value: string | undefined): readonly string[] | null {
  if (value === undefined) return null;
  if (value === "none") return [];
  const fault = (reason: string) => errors.OptionInvalid({ option: "devices", value: value || '""', reason });
  const devices = value.split(",").flatMap((part) => rangeOf(part) ?? part);
  const odd = devices.find((device) => !deviceSchema.safeParse(device).success);
  if (odd !== undefined)
    throw fault(
      `has "${odd}", which is no device; use numbers such as 0,1,2,3 or 0-3, names such as GPU-8932f937, or none`,
    );
  const twice = doubledOf(devices);
  if (twice !== null) throw fault(`names device ${twice} twice; name each device once`);
  if (devices.length > devicesMax) throw fault(`names ${devices.length} devices; a node has at most ${devicesMax}`);
  return devices;
}

/** The numbers of a range such as `0-3`; `null` for anything else. */
function rangeOf(part: string): readonly string[] | null {
  const [, first, last] = /^(\d{1,4})-(\d{1,4})$/.exec(part) ?? [];
  if (first === undefined || last === undefined || Number(first) > Number(last)) return null;
  return Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => `${Number(first) + i}`);
}

/** Counts by role, from texts like `rollout=4`. @throws MUSTER_ERR_OPTION_INVALID */
export function countsOf(option: string, texts: readonly string[]): Partial<Record<ReplicaRole, number>> {
  const counts: Partial<Record<ReplicaRole, number>> = {};
  for (const text of texts) {
    const [name = "", count = "", ...rest] = text.split("=");
    const role = replicaRoles.find((each) => each === name);
    const isCount = /^\d{1,4}$/.test(count) && Number(count) <= countMax && rest.length === 0;
    if (!role || !isCount) {
      const reason = `is not ROLE=N; roles are ${replicaRoles.join(", ")}, N is 0 to ${countMax}, for example rollout=4`;
      throw errors.OptionInvalid({ option, value: text || '""', reason });
    }
    counts[role] = Number(count);
  }
  return counts;
}
