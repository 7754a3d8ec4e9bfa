import { z } from "zod";
import { devicesSchema } from "../devices.ts";
import { countSchema } from "../envelope.ts";
import { idSchema, memberRoles } from "../ids.ts";
import { rankSchema } from "../ranks.ts";
import { defineMessages } from "./define.ts";
import { commandFields, lastWordsSchema, textSchema } from "./parts.ts";

/** Membership: how a replica comes, is watched, and goes. */
export const replicaMessages = defineMessages({
  "replica.register": {
    direction: "report",
    from: memberRoles,
    says: "A replica asks to join the job, as a new incarnation.",
    body: z.strictObject({
      role: z.enum(memberRoles),
      host: z.string().max(128),
      pid: countSchema,
      /** Replicas of different builds never share a mesh; empty for checkpoint actors. */
      engineBuild: z.string().max(128),
      /** Node that started its process; absent when nobody supervises it, or somebody else does. */
      node: idSchema.optional(),
      /** Life of a replica of several processes that rank 0 speaks for; absent for replicas of one. */
      life: countSchema.optional(),
      /** Devices that a node gives to its replicas; absent for replicas, and where there are none. */
      devices: devicesSchema.optional(),
      /** This incarnation was a member, and asks whether it still is. */
      again: z.boolean().optional(),
    }),
  },
  "replica.registered": {
    direction: "command",
    from: ["controller"],
    says: "The controller admits a replica and tells it the job's configuration and data-plane key.",
    body: z.strictObject({
      dataKey: z.instanceof(Uint8Array).refine((key) => key.length === 32, "must be 32 bytes"),
      /** The compiled job configuration as JSON. */
      config: z.string().max(200_000),
    }),
  },
  "replica.refused": {
    direction: "command",
    from: ["controller"],
    says: "The controller does not admit a replica, and why.",
    body: z.strictObject({ reason: textSchema }),
  },
  "replica.fenced": {
    direction: "command",
    from: ["controller"],
    says: "The controller does not know this incarnation (any more): drop all work and register as a new one.",
    body: z.strictObject({ reason: textSchema }),
  },
  "replica.draining": {
    direction: "report",
    from: memberRoles,
    says: "A replica wants to leave: it takes no new work and waits to be released.",
    body: z.strictObject({ reason: textSchema }),
  },
  "replica.stop": {
    direction: "command",
    from: ["controller"],
    says: "The controller releases a replica: leave now.",
    body: z.strictObject({ reason: textSchema }),
  },
  "replica.left": {
    direction: "report",
    from: memberRoles,
    says: "A replica has left; its process ends.",
    body: z.strictObject({ reason: textSchema }),
  },
  "replica.drain": {
    direction: "report",
    from: ["operator"],
    says: "An operator asks that a replica finishes or hands back its work and leaves.",
    body: z.strictObject({ id: idSchema, ...commandFields }),
  },
  "process.exited": {
    direction: "report",
    from: ["node", "operator"],
    says: "A node, or an operator, saw the process of a member end: evidence that needs no time-out.",
    body: z.strictObject({
      id: idSchema,
      host: z.string().max(128),
      pid: countSchema,
      code: z.number().int().nullable(),
      signal: z.string().max(16).nullable(),
      /** Which life of the replica on its node it was. */
      life: countSchema.optional(),
      /** Which process of a replica of several it was; absent for rank 0. */
      rank: rankSchema.optional(),
      /** The kernel ended it because memory was short. */
      oom: z.boolean().optional(),
      /** The last sentence of a process that did not end well, as it said it on its standard error. */
      words: lastWordsSchema.optional(),
    }),
  },
  "heartbeat.beat": {
    direction: "heartbeat",
    from: memberRoles,
    says: "A replica's process is alive, and how far its work has come; sent from a thread of its own.",
    body: z.strictObject({
      version: countSchema.nullable(),
      phase: z.string().max(48),
      /** Grows with every piece of finished work, so a beat without progress shows a hang. */
      progress: countSchema,
      loopLagMs: z.number().nonnegative(),
      rssBytes: countSchema,
      /** Failed health checks of its engine in a row: is it there, and does it still generate. Absent without checks. */
      engine: z.strictObject({ liveness: countSchema, generation: countSchema }).optional(),
    }),
  },
});
