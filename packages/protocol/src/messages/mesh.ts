import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { idSchema } from "../ids.ts";
import { defineMessages } from "./define.ts";
import { addressesSchema, engineSaidSchema, ranksServingSchema, textSchema, versionFields } from "./parts.ts";

/** The mesh of policy replicas: who reduces gradients with whom. */
export const meshMessages = defineMessages({
  "mesh.build": {
    direction: "command",
    from: ["controller"],
    says: "The controller gives the members of a new epoch in rank order; whatever ran on an older epoch is aborted.",
    body: z.strictObject({
      epoch: countSchema,
      /** Member at rank i; the receiver is among them. */
      members: z
        .array(
          z.strictObject({
            id: idSchema,
            incarnation: idSchema,
            /** Where it is and serves; given when the members are on several hosts. */
            place: z.strictObject({ host: z.string().max(255), addresses: addressesSchema }).optional(),
            /** Where its processes serve, where it has several and each has a shard: rank r meets the ranks r of the others. Said beside a version that it holds. */
            ranks: ranksServingSchema.extend({ ...versionFields, addresses: addressesSchema }).optional(),
          }),
        )
        .min(1)
        .max(1024),
    }),
  },
  "mesh.built": {
    direction: "report",
    from: ["policy"],
    says: "A member joined the communicator of an epoch.",
    body: z.strictObject({
      epoch: countSchema,
      /** What its engine is, and what came of a short computation on its machine; absent for engines that do not say. */
      engine: engineSaidSchema.optional(),
    }),
  },
  "mesh.failed": {
    direction: "report",
    from: ["policy"],
    says: "A member could not join the communicator of an epoch, and which members it missed.",
    body: z.strictObject({ epoch: countSchema, cause: textSchema, missing: z.array(idSchema).max(1024) }),
  },
});
