/** Where a job's input goes on after a checkpoint, and whether another job's input would. */
import type { Cursor } from "@muster/checkpoint";
import type { JobConfig } from "@muster/protocol";

type Input = Pick<JobConfig, "seed" | "task" | "taskModule" | "prompts" | "batch">;

/** The cursor of the checkpoint of a step. Pure. */
export function cursorOf({ seed, task, taskModule, prompts, batch }: Input, step: number): Cursor {
  const { groupsPerStep, groupSize } = batch;
  const data = prompts?.digest ?? taskModule?.digest ?? task.name;
  return { seed, nextStep: step + 1, nextPrompt: step * groupsPerStep, groupsPerStep, groupSize, data };
}

/** Keys of the job file that decide each field. */
const keys = {
  seed: "job.seed",
  groupsPerStep: "batch.groups_per_step",
  groupSize: "batch.group_size",
  data: "task.name or the rows of its prompts",
} as const;

/**
 * Why a job would not go on from a checkpoint with the prompts and samples that come next; `null` when it would, and for a checkpoint that does not
 * say where it was. Pure.
 */
export function cursorFlaw(cursor: Cursor | undefined, config: Input): string | null {
  if (!cursor) return null;
  const own = cursorOf(config, cursor.nextStep - 1);
  const flaws = (Object.keys(keys) as (keyof typeof keys)[])
    .filter((field) => cursor[field] !== own[field])
    .map((field) => `${keys[field]} was ${cursor[field]} and is ${own[field]}`);
  return flaws.length > 0 ? flaws.join(", ") : null;
}
