/** Where a job's input goes on after a checkpoint, and whether another job's input would. */
import type { Cursor } from "@muster/checkpoint";
import { type JobConfig, positionOf, type StepSize, spansOf } from "@muster/protocol";

type Input = Pick<JobConfig, "seed" | "task" | "taskModule" | "prompts" | "batch">;

/** The cursor of the checkpoint of a step; `sizes` says which steps had other groups than the job began with. Pure. */
export function cursorOf(
  { seed, task, taskModule, prompts, batch }: Input,
  step: number,
  sizes?: readonly StepSize[],
): Cursor {
  const { groupsPerStep, groupSize } = batch;
  const data = prompts?.digest ?? taskModule?.digest ?? task.name;
  const changes = sizes?.map(({ fromStep, ...settings }) => ({ fromStep, settings }));
  const nextPrompt = positionOf(spansOf(groupsPerStep, changes), { step: step + 1, index: 0 });
  const changed = sizes ? { sizes: [...sizes] } : {};
  return { seed, nextStep: step + 1, nextPrompt, groupsPerStep, groupSize, data, ...changed };
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
