import { z } from "zod";
import { changedSettingsSchema, settingsSchema } from "../settings.ts";
import { defineMessages } from "./define.ts";
import { commandFields } from "./parts.ts";

/** Settings of a job that are changed while it exists. */
export const settingsMessages = defineMessages({
  "job.change": {
    direction: "report",
    from: ["operator"],
    says: "An operator changes settings of the job from a step on: the next one that has not begun, unless a later one is named.",
    body: z.strictObject({
      settings: settingsSchema,
      /** First step with them; absent: the next one that has not begun. */
      fromStep: z.number().int().min(1).optional(),
      ...commandFields,
    }),
  },
  "job.changed": {
    direction: "event",
    from: ["controller"],
    says: "Settings of the job are others from a step on: each with its new value, and what it was at that step before.",
    body: changedSettingsSchema.extend({ before: settingsSchema }),
  },
});
