/** The table `[engine.worker]` of a job file. */
import { type ScorerConfig, z } from "@muster/protocol";
import { errors } from "../errors.ts";
import { environmentIn, inheritedOf, type WorkerCommand, wordsOf } from "../programs/command.ts";
import type { EngineOptions } from "../registry/adapter.ts";
import type { LinkTimes } from "./link.ts";

const seconds = z.number().positive().max(86_400);

/** Keys of the table, with what each is. */
export const workerSchema = z.strictObject({
  command: z
    .string()
    .max(4096)
    .default("")
    .describe("Program of the worker and its arguments, such as 'python3 my_worker.py'; quote what has spaces."),
  environment: z.string().max(4096).default("").describe("What its environment has besides: NAME=value, by spaces."),
  description: z
    .string()
    .max(4096)
    .default("")
    .describe("File of muster worker describe: no process starts the worker to ask what it is. Empty to ask."),
  build: z.string().max(128).default("").describe("Build that the worker must have; empty for whatever it says."),
  start_seconds: seconds.default(120).describe("Time from its start until it said what it is."),
  call_seconds: seconds.default(60).describe("Time for one request, such as the gradient of a micro-shard."),
  silence_seconds: seconds.default(15).describe("Time without an answer to a ping after which it is taken for hung."),
  cancel_seconds: seconds.default(10).describe("Time from a cancelled request until the worker is free again."),
  memory_mb: z
    .int()
    .min(0)
    .default(0)
    .describe("Memory of its own that it may have, in MiB, without shared regions; 0 for no limit."),
  arena_mb: z
    .int()
    .min(1)
    .max(65_536)
    .default(64)
    .describe("Size of the regions for prompts and responses, in MiB each."),
});

/** Options as they are used. */
export interface WorkerOptions {
  readonly command: WorkerCommand;
  /** Path of a description; `null` to ask the worker. */
  readonly description: string | null;
  /** `null` for any. */
  readonly build: string | null;
  readonly times: LinkTimes;
  readonly memoryMax: number;
  readonly arenaBytes: number;
}

/** Reads the table. `parent` is the environment of who starts the worker. Pure. @throws MUSTER_ERR_WORKER_COMMAND */
export function workerOptionsOf(
  options: EngineOptions,
  parent: Readonly<Record<string, string | undefined>>,
): WorkerOptions {
  const table = workerSchema.parse(options);
  return {
    command: commandOf(table, parent),
    description: table.description || null,
    build: table.build || null,
    times: {
      startMs: 1000 * table.start_seconds,
      callMs: 1000 * table.call_seconds,
      silenceMs: 1000 * table.silence_seconds,
      cancelMs: 1000 * table.cancel_seconds,
    },
    memoryMax: table.memory_mb * 2 ** 20,
    arenaBytes: table.arena_mb * 2 ** 20,
  };
}

/** Options of a job's worker that scores. Pure. @throws as {@link workerOptionsOf} */
export function scorerOptionsOf(
  { command, directory, environment, build, startMs, callMs, silenceMs, memoryBytes, arenaBytes }: ScorerConfig,
  parent: Readonly<Record<string, string | undefined>>,
): WorkerOptions {
  return {
    command: { ...commandOf({ command, environment: environment ?? "" }, parent), directory },
    ...{ description: null, build, memoryMax: memoryBytes, arenaBytes },
    times: { startMs, callMs, silenceMs, cancelMs: silenceMs },
  };
}

function commandOf(
  { command, environment }: { readonly command: string; readonly environment: string },
  parent: Readonly<Record<string, string | undefined>>,
): WorkerCommand {
  const invalid = (field: string, value: string, rule: string): Error =>
    errors.WorkerCommand({ field, value: JSON.stringify(value), rule });
  const words = wordsOf(command);
  if (words === null || words.length === 0)
    throw invalid("command", command, 'a program and its arguments, such as "python3 my_worker.py", each quote closed');
  const env = environmentIn(environment);
  if (env === null) throw invalid("environment", environment, 'words such as "OMP_NUM_THREADS=1"');
  return { words, env: { ...inheritedOf(parent), ...env } };
}
