import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { idSchema, memberRoles } from "../ids.ts";
import { defineMessages } from "./define.ts";
import { evidenceKindSchema, textSchema } from "./parts.ts";

/** Why: in words, by kind, and how long the replica had given no sign of life when it was found. */
export const evidenceFields = {
  evidence: textSchema,
  by: evidenceKindSchema.optional(),
  silentMs: z.number().nonnegative().optional(),
};

/** A member in public facts. */
export const memberFields = { id: idSchema, role: z.enum(memberRoles), incarnation: idSchema };

/** Who is well: questions to those who are silent, and what is found of those who do not move. */
export const healthMessages = defineMessages({
  "replica.probe": {
    direction: "probe",
    from: ["controller"],
    says: "The controller asks a silent replica whether it lives; not stored.",
    body: z.strictObject({ nonce: countSchema }),
  },
  "probe.answered": {
    direction: "heartbeat",
    from: memberRoles,
    says: "A replica answers a probe: the thread of its heartbeats and its main loop do so each for itself.",
    body: z.strictObject({ nonce: countSchema, by: z.enum(["thread", "loop"]) }),
  },
  "member.hung": {
    direction: "event",
    from: ["controller"],
    says: "A replica beats and does not move: its work goes to others. When it hangs again soon it is out, and its supervisor should end it.",
    body: z.strictObject({ ...memberFields, ...evidenceFields }),
  },
});
