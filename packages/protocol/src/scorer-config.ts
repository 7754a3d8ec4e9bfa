/** Programs of a job that score what others drew: workers of the kinds `reward` and `reference`. */
import { z } from "zod";
import { countSchema } from "./envelope.ts";

const positive = z.number().positive();

/** What `task.reward` is where the job's reward worker judges. */
export const workerReward = "worker";

/** How the program is started, and what it may take. */
const scorerSchema = z.strictObject({
  /** Program and arguments, by spaces, quoted where they have some. */
  command: z.string().min(1).max(4096),
  /** Absolute path of the folder that it starts in. */
  directory: z.string().min(1).max(4096),
  /** `NAME=value`, by spaces; `null` for nothing besides. */
  environment: z.string().max(4096).nullable(),
  /** That it must have; `null` for any. */
  build: z.string().min(1).max(128).nullable(),
  /** Trajectories or sequences of one request, at most. */
  batch: z.number().int().min(1).max(1024),
  /** From its start until it said what it is. */
  startMs: positive,
  /** Of one request. */
  callMs: positive,
  /** Without an answer to a ping, or after a request was cancelled. */
  silenceMs: positive,
  /** 0 for no limit. */
  memoryBytes: countSchema,
  /** Of the region that it reads from. */
  arenaBytes: z.number().int().min(4096),
});

/** Workers by kind; absent where a job has none. */
export const scorersSchema = z.strictObject({ reward: scorerSchema.optional(), reference: scorerSchema.optional() });

/** A program that scores, as a job has it. */
export type ScorerConfig = z.infer<typeof scorerSchema>;
