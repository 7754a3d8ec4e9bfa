import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { componentFiguresSchema, stepComponentsMax } from "../judgement.ts";
import { trainerSettingsSchema } from "../settings.ts";
import { defineMessages } from "./define.ts";
import { keepSchema, sectionSchema, textSchema, versionFields } from "./parts.ts";

/** Numbers in a sketch of weights. */
export const sketchLength = 16;

const attemptFields = { step: countSchema, attempt: countSchema, epoch: countSchema };

const batchPartSchema = z.strictObject({
  streamSeq: countSchema,
  groupIds: z.array(z.string().max(64)).min(1).max(1024),
});

/** A message of the groups stream, and which of its groups are meant. */
export type BatchPart = z.infer<typeof batchPartSchema>;

/** Largest figure of a step: what is beyond it says no more than that it is. */
export const figureMax = 1e15;

const figureSchema = z.number().min(-figureMax).max(figureMax);
const amountSchema = z.number().nonnegative().max(figureMax);

/** Of the whole batch, so equal on all members: whoever read the same groups says the same. */
const batchFiguresSchema = z
  .strictObject({
    groups: countSchema,
    /** Groups whose members have no advantage over each other: they teach nothing. */
    evenGroups: countSchema,
    /** Trajectories with a reward that counts, and of those the ones that ended because there was no room for more. */
    trajectories: countSchema,
    truncated: countSchema,
    /** Response tokens of the longest one. */
    longest: countSchema,
    /** Sum of (reward − mean)², and the ends of their range; 0 without any. */
    rewardSquares: z
      .number()
      .nonnegative()
      .max(figureMax ** 2),
    rewardLeast: figureSchema,
    rewardMost: figureSchema,
    /** Of the parts of rewards, by name in order, and how many names are left out. */
    components: z.array(componentFiguresSchema).min(1).max(stepComponentsMax).optional(),
    componentsMore: countSchema.optional(),
    /** Learning rate of the step. */
    lr: amountSchema,
    /** KL(sampled ‖ reference), nats per token in the loss; only where a divergence from a reference policy is taken off the reward. */
    referenceKl: figureSchema.optional(),
  })
  .refine(
    ({ groups, evenGroups, trajectories, truncated, rewardLeast, rewardMost, components = [] }) =>
      evenGroups <= groups &&
      truncated <= trajectories &&
      rewardLeast <= rewardMost &&
      components.every(({ count, least, most }) => count <= trajectories && least <= most),
    "a part is larger than its whole",
  );

/** What a batch was, as a trainer counted it. */
export type BatchFigures = z.infer<typeof batchFiguresSchema>;

const statsSchema = z
  .strictObject({
    /** Response tokens of the micro-shards that this replica computed, and sums over them. */
    tokens: countSchema,
    clipped: countSchema,
    klSum: figureSchema,
    entropySum: figureSchema,
    lossSum: figureSchema,
    /** |trained − sampled| log-probability before the first update of the step, over the tokens of this replica's part of the first minibatch. */
    logprobGap: z.strictObject({ tokens: countSchema, sum: amountSchema, max: amountSchema }).optional(),
    /** KL(trained ‖ reference); only where a divergence from a reference policy is in the loss. */
    referenceKlSum: figureSchema.optional(),
    /** Loss on held-out rows, of the micro-shards of them that this replica computed; only of a step after which it is measured. */
    heldOut: z.strictObject({ tokens: countSchema, lossSum: figureSchema }).optional(),
    /** Norm of the last reduced gradient; equal on all members. */
    gradNorm: figureSchema,
    computeMs: z.number().nonnegative(),
    reduceMs: z.number().nonnegative(),
    /** Absent in journals of programs that did not count it. */
    batch: batchFiguresSchema.optional(),
  })
  .refine(({ clipped, tokens }) => clipped <= tokens, "more tokens are clipped than there are")
  .refine(
    ({ logprobGap, tokens }) => (logprobGap?.tokens ?? 0) <= tokens,
    "more tokens are in the first minibatch than there are",
  );

/** What a member reports of its share of a step. */
export type StepStats = z.infer<typeof statsSchema>;

/** One training step: run, vote, commit, apply (semantics 6.1 and 6.2). */
export const stepMessages = defineMessages({
  "step.run": {
    direction: "command",
    from: ["controller"],
    says: "The controller has the members of an epoch compute a step from a batch, on a candidate beside the live weights.",
    body: z.strictObject({
      ...attemptFields,
      ...versionFields,
      /** The batch: sequences in the groups stream and which groups of each message count. */
      batch: z.array(batchPartSchema).min(1).max(4096),
      /** Settings of trainers that were changed since the job began, where any were. */
      rate: trainerSettingsSchema.optional(),
    }),
  },
  "step.voted": {
    direction: "report",
    from: ["policy"],
    says: "A member ends its part of a step with commit or abort, and the digests of its candidate.",
    isLarge: true,
    body: z.strictObject({
      ...attemptFields,
      vote: z.enum(["commit", "abort"]),
      /** False when a loss or gradient was not finite: then nobody commits and the step is skipped. */
      finite: z.boolean(),
      sections: z.array(sectionSchema).max(4),
      stats: statsSchema.optional(),
      cause: textSchema.optional(),
      /** Members that did not arrive in a failed collective. */
      missing: z.array(z.string().max(48)).max(1024).optional(),
      /** Of the candidate's weights, where trainers may drift: sums of all weights with signs of their own, by which distances are told. */
      sketch: z.array(z.number()).length(sketchLength).optional(),
      /** Groups of the batch that can not be read from the groups stream; the first ones when there are more. */
      unreadable: z.array(batchPartSchema).max(64).optional(),
    }),
  },
  "step.apply": {
    direction: "command",
    from: ["controller"],
    says: "The step is committed in the journal: the candidate with these digests becomes the live version.",
    body: z.strictObject({
      ...attemptFields,
      ...versionFields,
      sections: z.array(sectionSchema).min(1).max(4),
      keep: keepSchema,
    }),
  },
  "step.discard": {
    direction: "command",
    from: ["controller"],
    says: "The step is not committed: drop the candidate and keep the live weights.",
    body: z.strictObject({ ...attemptFields, reason: textSchema }),
  },
});
