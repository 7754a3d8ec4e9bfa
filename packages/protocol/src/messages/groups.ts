import { z } from "zod";
import { groupsBegunBody } from "../begun.ts";
import { countSchema } from "../envelope.ts";
import { failureKinds } from "../failure.ts";
import { groupsBatchBody } from "../trajectory.ts";
import { defineMessages } from "./define.ts";
import { causeCountSchema, textSchema, versionFields } from "./parts.ts";

const placeFields = {
  /** Sequence in the groups stream of the message that has it, or that names its pieces. */
  streamSeq: countSchema,
  /** Lowest sequence of what belongs to it: pieces, and what was saved before; absent: `streamSeq`. */
  firstSeq: countSchema.optional(),
};

const partialSchema = z.strictObject({
  ...placeFields,
  /** Response tokens. */
  tokens: countSchema,
});

/** The responses of a group that were begun: where they are, and how much that is. */
export type PartialGroup = z.infer<typeof partialSchema>;

const itemSchema = z.discriminatedUnion("purpose", [
  z.strictObject({
    purpose: z.literal("train"),
    step: countSchema,
    index: countSchema,
    attempt: countSchema,
    /** Prompts before its own since the beginning of the job; absent while all steps are of the size that the job began with. */
    position: countSchema.optional(),
    /** What is begun of it. */
    partial: partialSchema.optional(),
  }),
  z.strictObject({ purpose: z.literal("eval"), chunk: countSchema, from: countSchema, count: countSchema }),
]);

/** One thing to generate: a training group, or a chunk of held-out prompts. */
export type WorkItem = z.infer<typeof itemSchema>;

/** Schema of a {@link GroupReceipt}. */
export const receiptSchema = z.strictObject({
  step: countSchema,
  index: countSchema,
  attempt: countSchema,
  ...placeFields,
  /** Oldest weight version in it. */
  version: countSchema,
  completed: countSchema,
  aborted: countSchema,
  /** Response tokens. */
  tokens: countSchema,
  rewardSum: z.number(),
});

/** What the controller keeps of a finished group; the tokens stay in the groups stream. */
export type GroupReceipt = z.infer<typeof receiptSchema>;

/** Rollout work: leases out, receipts back. */
export const groupsMessages = defineMessages({
  "groups.lease": {
    direction: "command",
    from: ["controller"],
    says: "The controller leases work to a rollout replica for a time; several items to a message.",
    body: z.strictObject({
      leaseId: z.string().min(1).max(64),
      ...versionFields,
      items: z.array(itemSchema).min(1).max(1024),
    }),
  },
  "groups.batch": {
    direction: "groups",
    from: ["rollout"],
    says: "A rollout replica stores finished groups with all their tokens.",
    body: groupsBatchBody,
  },
  "groups.begun": {
    direction: "groups",
    from: ["rollout"],
    says: "A rollout replica stores the responses that it began: all few seconds, and when it hands them back.",
    body: groupsBegunBody,
  },
  "groups.completed": {
    direction: "report",
    from: ["rollout"],
    says: "A rollout replica finished groups of a lease; each receipt points into the groups stream.",
    isLarge: true,
    body: z.strictObject({
      leaseId: z.string().min(1).max(64),
      receipts: z.array(receiptSchema).min(1).max(1024),
      /** Errors of aborted trajectories, grouped by cause. */
      causes: z.array(causeCountSchema).max(32),
      /** From the begin of generation until the broker had the groups. */
      durationMs: z.number().nonnegative(),
    }),
  },
  "groups.held": {
    direction: "report",
    from: ["rollout"],
    isLarge: true,
    says: "A rollout replica waits with what it did of a lease because the groups stream is full; said again while it lasts.",
    body: z.strictObject({
      leaseId: z.string().min(1).max(64),
      reason: textSchema,
      /** What is computed and waits for nothing but room. */
      items: z.array(itemSchema).max(1024).optional(),
    }),
  },
  "groups.saved": {
    direction: "report",
    from: ["rollout"],
    says: "A rollout replica stored what it has drawn so far of items of a lease, and goes on.",
    isLarge: true,
    body: z.strictObject({
      leaseId: z.string().min(1).max(64),
      items: z.array(itemSchema).min(1).max(1024),
    }),
  },
  "groups.returned": {
    direction: "report",
    from: ["rollout"],
    says: "A rollout replica hands unfinished items of a lease back.",
    isLarge: true,
    body: z.strictObject({
      leaseId: z.string().min(1).max(64),
      items: z.array(itemSchema).min(1).max(1024),
      reason: textSchema,
      /** What failed over them; absent when they are handed back untouched or unfinished. */
      failure: z.enum(failureKinds).optional(),
      /** Response tokens that were drawn and are lost. */
      tokensWasted: countSchema.optional(),
    }),
  },
  "evals.completed": {
    direction: "report",
    from: ["rollout"],
    says: "A rollout replica evaluated a chunk of held-out prompts greedily at one weight version.",
    body: z.strictObject({
      leaseId: z.string().min(1).max(64),
      version: countSchema,
      chunk: countSchema,
      prompts: countSchema,
      correct: countSchema,
    }),
  },
});
