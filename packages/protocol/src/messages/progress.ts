import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { defineMessages } from "./define.ts";
import { versionFields } from "./parts.ts";

/** How good what is kept is. */
export const progressMessages = defineMessages({
  "checkpoint.best": {
    direction: "event",
    from: ["controller"],
    says: "Of the durable checkpoints this one is now the best at held-out prompts: it stays beside the newest ones.",
    body: z.strictObject({
      step: countSchema,
      ...versionFields,
      path: z.string().max(4096),
      prompts: countSchema,
      correct: countSchema,
    }),
  },
});
