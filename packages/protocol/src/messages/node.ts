import { z } from "zod";
import { devicesSchema } from "../devices.ts";
import { countSchema } from "../envelope.ts";
import { idSchema } from "../ids.ts";
import { nodeRanksMax, rankOrderSchema, rankSchema } from "../ranks.ts";
import { perRole, replicaRoles } from "../role-table.ts";
import { defineMessages } from "./define.ts";
import { textSchema } from "./parts.ts";

/** Replicas of a role that a node can run; `null` for as many as are asked of it. */
const roomSchema = countSchema.nullable();

/** What a node has room for, by role. */
const capacitySchema = z.strictObject(perRole(() => roomSchema));

/** What a node of this version can do beyond the first one: a node of an earlier version leaves the orders aside that are about it. */
export const nodeCapabilities = ["ranks"] as const;

/** What a node can be asked for beyond the first version: `ranks`, processes of replicas of several (`node.assign.ranks`). */
export type NodeCapability = (typeof nodeCapabilities)[number];

/** What a sign of a failure to come is about: GPUs, memory, temperature, a processor that is not there. */
const hostSignKinds = ["gpu", "memory", "memory-errors", "heat", "stall"] as const;

/** Nodes: which processes should run on a host, and which do. */
export const nodeMessages = defineMessages({
  "node.ready": {
    direction: "report",
    from: ["node"],
    says: "A node has cleaned up after its earlier life and can run replicas.",
    body: z.strictObject({
      capacity: capacitySchema,
      /** Where its host is reached by others, in the network that the job names; absent where it names none. */
      address: z.string().min(1).max(256).optional(),
      /** What it can do beyond the first version; absent: nothing. A newer node may name what is not known here. */
      capabilities: z
        .array(z.string().regex(/^[a-z][a-z_]{0,47}$/))
        .max(64)
        .optional(),
    }),
  },
  "node.assign": {
    direction: "command",
    from: ["controller"],
    says: "The controller tells a node the whole set of replicas that should run there; the highest revision counts.",
    body: z.strictObject({
      revision: countSchema,
      replicas: z
        .array(
          z.strictObject({
            id: idSchema,
            role: z.enum(replicaRoles),
            /** Lowest life that may run: a process of an earlier one is ended at once. */
            life: countSchema,
            /** Devices that the process gets and no other one has; absent in jobs that give none to any role. */
            devices: devicesSchema.optional(),
          }),
        )
        .max(4096),
      /** Processes of replicas of several; absent where none has its place there. */
      ranks: z.array(rankOrderSchema).max(nodeRanksMax).optional(),
    }),
  },
  "node.assigned": {
    direction: "report",
    from: ["node"],
    says: "A node works on an assignment.",
    body: z.strictObject({ revision: countSchema }),
  },
  "node.signal": {
    direction: "command",
    from: ["controller"],
    says: "The controller has a node send a signal to the process of a replica.",
    body: z.strictObject({ commandId: idSchema, id: idSchema, signal: z.string().max(16) }),
  },
  "node.signalled": {
    direction: "report",
    from: ["node"],
    says: "A node sent a signal, or says why it could not.",
    body: z.strictObject({ commandId: idSchema, id: idSchema, pid: countSchema.nullable(), detail: textSchema }),
  },
  "node.signs": {
    direction: "report",
    from: ["node"],
    says: "A node sees signs that its host may fail soon; none means that they are gone.",
    body: z.strictObject({
      signs: z.array(z.strictObject({ kind: z.enum(hostSignKinds), detail: textSchema })).max(hostSignKinds.length),
    }),
  },
  "process.started": {
    direction: "report",
    from: ["node"],
    says: "A node started the process of a replica.",
    body: z.strictObject({
      id: idSchema,
      host: z.string().max(128),
      pid: countSchema,
      life: countSchema,
      rank: rankSchema.optional(),
      /** The port that was reserved for its other ranks to meet it; only of rank 0 of several. */
      port: countSchema.min(1).max(65_535).optional(),
    }),
  },
  "process.retired": {
    direction: "report",
    from: ["node"],
    says: "A node gives a replica up: it keeps ending.",
    body: z.strictObject({ id: idSchema, life: countSchema, deaths: countSchema, reason: textSchema }),
  },
});
