/** What an operator may change of a job that exists: settings that each step is trained with, and nothing that other steps depend on. */
import { z } from "zod";
import { countSchema } from "./envelope.ts";
import type { JobConfig } from "./job-config.ts";
import { lrSchedules } from "./training.ts";

/** Schema of the settings of the learning rate. */
export const rateSchema = z.strictObject({
  lr: z.number().positive().max(1e6).optional(),
  lrWarmupSteps: countSchema.optional(),
  /** Share of `lr` left at the last step. */
  lrFinalRatio: z.number().positive().max(1).optional(),
  lrSchedule: z.enum(lrSchedules).optional(),
});

/** Schema of the settings that may be changed; absent ones stay what they are. */
export const settingsSchema = rateSchema.extend({
  /** Oldest weights that may still be trained on, in versions. */
  stalenessMax: countSchema.max(1024).optional(),
});

/** Settings that may be changed. */
export type Settings = z.infer<typeof settingsSchema>;

/** Schema of settings with the first step that has them. */
export const changedSettingsSchema = z.strictObject({ fromStep: z.number().int().min(1), settings: settingsSchema });

/** Settings with the first step that has them. */
export type ChangedSettings = z.infer<typeof changedSettingsSchema>;

/** Most changes of one job. */
export const changesMax = 256;

/** The key of a job file by which people know each setting. */
export const settingKeys: Readonly<Record<keyof Settings, string>> = {
  lr: "optimizer.lr",
  lrWarmupSteps: "optimizer.lr_warmup_steps",
  lrFinalRatio: "optimizer.lr_final_ratio",
  lrSchedule: "optimizer.lr_schedule",
  stalenessMax: "job.staleness_max",
};

/** What was changed until a step: of changes that begin with the same step the later one counts. Pure. */
export function settingsAt(changes: readonly ChangedSettings[] | undefined, step: number): Settings {
  const begun = (changes ?? []).filter(({ fromStep }) => fromStep <= step);
  return Object.assign({}, ...begun.sort((a, b) => a.fromStep - b.fromStep).map(({ settings }) => settings));
}

/** A configuration with settings in the place of its own. Pure. */
export function withSettings(config: JobConfig, { stalenessMax, ...rate }: Settings): JobConfig {
  const given = Object.fromEntries(Object.entries(rate).filter(([, value]) => value !== undefined));
  return {
    ...config,
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
