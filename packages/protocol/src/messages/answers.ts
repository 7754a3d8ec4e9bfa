import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { idSchema } from "../ids.ts";
import { refusalReasons } from "../refusal.ts";
import { defineMessages } from "./define.ts";
import { textSchema } from "./parts.ts";

/** What the controller answers to whom it can not understand, or does not believe. */
export const answerMessages = defineMessages({
  "message.refused": {
    direction: "event",
    from: ["controller"],
    says: "A message to the controller counts as never said: which one, as far as it can be read, from whom, and why.",
    body: z.strictObject({
      id: z.string().max(128).optional(),
      /** Its kind. */
      said: z.string().max(48).optional(),
      commandId: idSchema.optional(),
      /** Role and id by its subject; empty when the subject names nobody. */
      sender: z.string().max(128),
      subject: z.string().max(256),
      code: z.enum(refusalReasons),
      detail: textSchema,
      /** Messages of this role that were refused before it without an answer, because there were too many. */
      unsaid: countSchema,
    }),
  },
});
