import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { defineMessages } from "./define.ts";
import { shardsSchema, versionFields } from "./parts.ts";

/** Checkpoints that several actors write together. */
export const shardMessages = defineMessages({
  "shards.saved": {
    direction: "report",
    from: ["checkpoint"],
    says: "Some shards of a checkpoint are written, flushed and verified; it counts when all are, and one actor has sealed it.",
    body: z.strictObject({
      step: countSchema,
      ...versionFields,
      shards: shardsSchema,
      bytes: countSchema,
      durationMs: z.number().nonnegative(),
    }),
  },
});
