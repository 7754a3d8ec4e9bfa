/** What an operator may change of a job that exists: settings that a step has for itself, and how many steps there are. */
import { z } from "zod";
import { countSchema } from "./envelope.ts";
import { groupsPerStepMax, type JobConfig, minibatchesMax } from "./job-config.ts";
import { lrSchedules } from "./training.ts";

const atLeastOne = z.number().int().min(1);

/** Schema of the settings that trainers need for a step. */
export const trainerSettingsSchema = z.strictObject({
  lr: z.number().positive().max(1e6).optional(),
  lrWarmupSteps: countSchema.optional(),
  /** Share of `lr` left at the last step. */
  lrFinalRatio: z.number().positive().max(1).optional(),
  lrSchedule: z.enum(lrSchedules).optional(),
  /** Updates of the weights in a step. */
  minibatches: atLeastOne.max(minibatchesMax).optional(),
  /** Steps of the job, to which the learning rate falls. */
  steps: atLeastOne.optional(),
});

/** Schema of the settings that may be changed; absent ones stay what they are. */
export const settingsSchema = trainerSettingsSchema.extend({
  /** Oldest weights that may still be trained on, in versions. */
  stalenessMax: countSchema.max(1024).optional(),
  /** Prompts of a step. */
  groupsPerStep: atLeastOne.max(groupsPerStepMax).optional(),
});

/** Settings that may be changed. */
export type Settings = z.infer<typeof settingsSchema>;

/** Schema of settings with the first step that has them. */
export const changedSettingsSchema = z.strictObject({ fromStep: z.number().int().min(1), settings: settingsSchema });

/** Settings with the first step that has them. */
export type ChangedSettings = z.infer<typeof changedSettingsSchema>;

/** Schema of a step from which on steps have so many groups. */
export const stepSizeSchema = z.strictObject({
  fromStep: z.number().int().min(1),
  groupsPerStep: atLeastOne.max(groupsPerStepMax),
});

/** A step from which on steps have so many groups. */
export type StepSize = z.infer<typeof stepSizeSchema>;

/** Most changes of one job. */
export const changesMax = 256;

/** The key of a job file by which people know each setting. */
export const settingKeys: Readonly<Record<keyof Settings, string>> = {
  lr: "optimizer.lr",
  lrWarmupSteps: "optimizer.lr_warmup_steps",
  lrFinalRatio: "optimizer.lr_final_ratio",
  lrSchedule: "optimizer.lr_schedule",
  minibatches: "batch.minibatches",
  steps: "job.steps",
  stalenessMax: "job.staleness_max",
  groupsPerStep: "batch.groups_per_step",
};

/**
 * What was changed until a step: of changes that begin with the same step the later one counts. A job has one end, so of its number of steps the one that
 * was said last counts. Pure.
 */
export function settingsAt(changes: readonly ChangedSettings[] | undefined, step: number): Settings {
  const begun = (changes ?? []).filter(({ fromStep }) => fromStep <= step);
  const steps = begun.findLast(({ settings }) => settings.steps !== undefined)?.settings.steps;
  const inOrder = begun.toSorted((a, b) => a.fromStep - b.fromStep).map(({ settings }) => settings);
  return Object.assign({}, ...inOrder, steps === undefined ? {} : { steps });
}

/** Steps of a job that began with `steps`, after all changes. Pure. */
export function stepsAfter(steps: number, changes: readonly ChangedSettings[] | undefined): number {
  return settingsAt(changes, Number.POSITIVE_INFINITY).steps ?? steps;
}

/** A configuration with settings in the place of its own. Pure. */
export function withSettings(config: JobConfig, settings: Settings): JobConfig {
  const { stalenessMax, groupsPerStep, minibatches, steps, ...rate } = settings;
  const given = Object.fromEntries(Object.entries(rate).filter(([, value]) => value !== undefined));
  const { batch } = config;
  return {
    ...config,
    steps: steps ?? config.steps,
    batch: {
      ...batch,
      groupsPerStep: groupsPerStep ?? batch.groupsPerStep,
      minibatches: minibatches ?? batch.minibatches,
    },
    optimizer: { ...config.optimizer, ...given },
    stalenessMax: stalenessMax ?? config.stalenessMax,
  };
}

/** Settings as people write them: `optimizer.lr = 0.001, …`. Pure. */
export function settingsText(settings: Settings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${settingKeys[name as keyof Settings]} = ${value}`)
    .join(", ");
}
