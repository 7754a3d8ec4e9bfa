import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { changesMax, stepSizeSchema } from "../settings.ts";
import { defineMessages } from "./define.ts";
import { holderSchema, sectionSchema, shardsSchema, textSchema, versionFields } from "./parts.ts";

/** Checkpoints: what makes weights last. */
export const checkpointMessages = defineMessages({
  "checkpoint.save": {
    direction: "command",
    from: ["controller"],
    says: "The controller has a checkpoint actor pull a committed version and write it.",
    body: z.strictObject({
      step: countSchema,
      ...versionFields,
      sections: z.array(sectionSchema).min(1).max(4),
      holders: z.array(holderSchema).min(1).max(64),
      /** Groups stream messages below this sequence are covered by the checkpoint. */
      groupsWatermark: countSchema,
      /** Folder of the checkpoint that the controller would restore: it must stay until the next order. */
      pinned: z.string().max(4096).optional(),
      /** Folders of what it would restore if that one were damaged: they stay, too. */
      fallbacks: z.array(z.string().max(4096)).max(64).optional(),
      /** Copies that never came to count and never will, by name and manifest: they may go, though they are newer than what is pinned. */
      superseded: z
        .array(z.strictObject({ name: z.string().max(64), manifestDigest: z.string().max(128) }))
        .min(1)
        .max(64)
        .optional(),
      /** Version whose checkpoint was best at held-out prompts: it stays besides. */
      best: z.strictObject({ step: countSchema, version: countSchema }).optional(),
      /** The actor writes these shards of it, or seals it; absent: it writes the whole. */
      shards: shardsSchema.optional(),
      /** First steps with other groups than those before, and how many, where the batch was changed: they say which prompt is next. */
      sizes: z.array(stepSizeSchema).min(1).max(changesMax).optional(),
      /** The ledger at this version, for the manifest. */
      ledger: z.strictObject({
        admitted: countSchema,
        trained: countSchema,
        aborted: countSchema,
        quarantined: countSchema,
      }),
    }),
  },
  "checkpoint.saved": {
    direction: "report",
    from: ["checkpoint"],
    says: "A checkpoint is written, flushed and verified.",
    body: z.strictObject({
      step: countSchema,
      ...versionFields,
      path: z.string().max(4096),
      manifestDigest: z.string().max(128),
      bytes: countSchema,
      durationMs: z.number().nonnegative(),
    }),
  },
  "checkpoint.failed": {
    direction: "report",
    from: ["checkpoint"],
    says: "A checkpoint could not be written; the last good one stays.",
    body: z.strictObject({
      step: countSchema,
      ...versionFields,
      cause: textSchema,
      /** Its disk has no room: the folder, what is free there and what a checkpoint needs. */
      full: z
        .strictObject({ folder: z.string().max(4096), freeBytes: countSchema, neededBytes: countSchema })
        .optional(),
      /** It was to seal the checkpoint, and shards that were reported durable are not in its folder. */
      shardsMissing: z.boolean().optional(),
    }),
  },
});
