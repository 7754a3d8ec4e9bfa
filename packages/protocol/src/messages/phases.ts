import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { defineMessages } from "./define.ts";
import { receiptSchema } from "./groups.ts";
import { commandFields, sectionSchema, textSchema } from "./parts.ts";

/** What a job does: it samples and trains, it only samples, or it only trains what is sampled already. */
export const rlPhases = ["both", "rollout", "update"] as const;

/** One of the {@link rlPhases}. */
export type RlPhase = (typeof rlPhases)[number];

/** Receipts of one import, at most. */
export const importReceiptsMax = 256;

/** Jobs that sample and train at different times, and groups that come from files. */
export const phaseMessages = defineMessages({
  "job.phase": {
    direction: "report",
    from: ["operator"],
    says: "An operator says what a job does from now on: sample and train, only sample, or only train.",
    body: z.strictObject({
      phase: z.enum(rlPhases),
      /** With `update`: the step `step` is trained without the groups that are missing, if at least this share of them is there. */
      partial: z.strictObject({ step: countSchema, quorum: z.number().gt(0).max(1) }).optional(),
      ...commandFields,
    }),
  },
  "groups.import": {
    direction: "report",
    from: ["operator"],
    isLarge: true,
    says: "An operator brings finished groups that another run sampled; they lie in the groups stream. A group that is there already, or was trained, stays as it is.",
    body: z.strictObject({
      /** The weights that sampled them: version, and what they are. Empty where the file does not know them. */
      weights: z.strictObject({ version: countSchema, sections: z.array(sectionSchema).max(4) }),
      receipts: z.array(receiptSchema).min(1).max(importReceiptsMax),
      ...commandFields,
    }),
  },
  "phase.ended": {
    direction: "event",
    from: ["controller"],
    says: "A job that only samples has all groups that it may sample now, or one that only trains has none left to train.",
    body: z.strictObject({
      phase: z.enum(["rollout", "update"]),
      /** The next step to be trained, and the weights for it. */
      step: countSchema,
      version: countSchema,
      /** Groups of that step that are there, and how many it has. */
      groups: countSchema,
      of: countSchema,
      reason: textSchema,
    }),
  },
  "step.partial": {
    direction: "event",
    from: ["controller"],
    says: "A step will be trained without the groups that are missing, as the operator's quorum allows.",
    body: z.strictObject({
      step: countSchema,
      /** Indices of those that are missing. */
      missing: z.array(countSchema).max(4096),
      /** The share of its groups that is there, and the least that was asked for. */
      coverage: z.number().min(0).max(1),
      quorum: z.number().min(0).max(1),
    }),
  },
});
