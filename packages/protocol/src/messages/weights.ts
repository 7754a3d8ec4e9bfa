import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { replicaRoles } from "../role-table.ts";
import { defineMessages } from "./define.ts";
import {
  addressesSchema,
  engineSaidSchema,
  holderSchema,
  ranksServingSchema,
  sectionSchema,
  textSchema,
  trainingAddressesSchema,
  versionFields,
} from "./parts.ts";

/** Where initial weights come from. */
export const weightSourceSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("seed"), seed: countSchema }),
  z.strictObject({ kind: z.literal("folder"), path: z.string().min(1).max(4096) }),
  z.strictObject({
    kind: z.literal("checkpoint"),
    path: z.string().min(1).max(4096),
    /** Digests of its manifest, of each copy that was reported durable: one of them is what is restored. Absent for what the job did not write. */
    manifestDigests: z.array(z.string().max(128)).min(1).max(64).optional(),
  }),
]);

const sections = z.array(sectionSchema).min(1).max(4);
const holders = z.array(holderSchema).min(1).max(64);

/** Where a lineage begins: at the source of the job, at a checkpoint, or at a version that checkpoint actors keep in memory. */
const beginningSchema = z.discriminatedUnion("kind", [
  ...weightSourceSchema.options,
  z.strictObject({ kind: z.literal("memory"), ...versionFields, sections, holders }),
]);

/** Weights: who makes them, who holds them, who should pull them. */
export const weightsMessages = defineMessages({
  "weights.initialize": {
    direction: "command",
    from: ["controller"],
    says: "The controller has a policy replica load or make the first weights of a lineage.",
    body: z.strictObject({ ...versionFields, source: beginningSchema }),
  },
  "weights.meta": {
    direction: "report",
    from: ["policy"],
    says: "The initialising replica names the tensor table of the model by its digest; the table itself is in no message, and lies beside the weights on the data plane.",
    body: z.strictObject({
      lineage: countSchema,
      /** Tensors of the table. */
      rows: countSchema,
      /** Bytes that they cover. */
      bytes: countSchema,
      /** Digest of the table, over a line of JSON for each row: `[name, dtype, shape, offset in bytes]`. */
      digest: z.string().max(128),
    }),
  },
  "weights.pull": {
    direction: "command",
    from: ["controller"],
    says: "The controller names a committed version, its digests and who holds it; a replica pulls, verifies and swaps, a checkpoint actor keeps it in memory.",
    body: z.strictObject({ ...versionFields, sections, holders }),
  },
  "weights.held": {
    direction: "report",
    from: replicaRoles,
    says: "A replica holds a version: it verified the digest. Nothing less makes it a holder.",
    isLarge: true,
    body: z.strictObject({
      ...versionFields,
      sections,
      /** Where others can pull it; empty when this replica does not serve it. */
      addresses: addressesSchema,
      training: trainingAddressesSchema,
      /** Of a trainer of several processes that each have a shard. */
      ranks: ranksServingSchema.optional(),
      bytes: countSchema,
      durationMs: z.number().nonnegative(),
      /** Of a sampler, with the first version that it holds: what its engine is. Absent for engines that do not say. */
      engine: engineSaidSchema.optional(),
    }),
  },
  "weights.failed": {
    direction: "report",
    from: replicaRoles,
    says: "A replica could not initialise, pull or publish a version.",
    body: z.strictObject({
      ...versionFields,
      cause: textSchema,
      /** The checkpoint that it was to restore is of no use: `corrupt` as it lies here, or `gone`, at least from this host. */
      damage: z
        .strictObject({
          kind: z.enum(["corrupt", "gone"]),
          reason: textSchema,
          /** Of the manifest that was read: it says which copy that was. Absent when the manifest itself could not be read. */
          manifestDigest: z.string().max(128).optional(),
        })
        .optional(),
      /** A checkpoint actor has no room for the version: it is not asked again for a while. */
      isTooLarge: z.boolean().optional(),
    }),
  },
});
