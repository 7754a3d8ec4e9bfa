import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { idSchema } from "../ids.ts";
import { perRole, replicaRoles } from "../role-table.ts";
import { defineMessages } from "./define.ts";
import { commandFields, textSchema } from "./parts.ts";

/** Kinds of what an operator may ask of a controller; each carries a command id and is answered in public. */
export const commandKinds = [
  "job.stop",
  "replica.drain",
  "replica.replace",
  "replica.kill",
  "fleet.scale",
  "fleet.cordon",
  "fleet.uncordon",
  "command.cancel",
  "job.change",
  "job.phase",
  "groups.import",
] as const;

/** What operators say as JSON, so that a shell can: commands, and arrivals at barriers. */
export const operatorKinds = [...commandKinds, "barrier.arrived"] as const;

/** One of the {@link commandKinds}. */
export type CommandKind = (typeof commandKinds)[number];

/** Signals that an operator may send to a replica. */
export const killSignals = ["SIGKILL", "SIGTERM", "SIGSTOP", "SIGCONT", "SIGABRT", "SIGQUIT", "SIGUSR1"] as const;

/** Health of a managed replica, from its first start to its last. */
export const fleetHealths = [
  "STARTING",
  "HEALTHY",
  "SUSPECT",
  "DEAD",
  "RESTARTING",
  "STALE",
  "DRAINING",
  "RETIRED",
  "LEFT",
] as const;

const wanted = countSchema.max(4096).optional();
const said = {
  commandId: idSchema,
  kind: z.string().max(48),
  /** Who gave it: id and incarnation of the sender. */
  by: z.string().max(128),
};

/** What an operator wants of the fleet, and what became of it. */
export const fleetMessages = defineMessages({
  "fleet.scale": {
    direction: "report",
    from: ["operator"],
    says: "An operator sets how many replicas of a role the nodes run.",
    body: z.strictObject({ ...perRole(() => wanted), ...commandFields }),
  },
  "fleet.cordon": {
    direction: "report",
    from: ["operator"],
    says: "An operator keeps new work away: from a node new replicas, from a replica new leases and steps.",
    body: z.strictObject({ id: idSchema, ...commandFields }),
  },
  "fleet.uncordon": {
    direction: "report",
    from: ["operator"],
    says: "An operator lets new work come again.",
    body: z.strictObject({ id: idSchema, ...commandFields }),
  },
  "replica.replace": {
    direction: "report",
    from: ["operator"],
    says: "An operator wants another replica in the place of one: first the new one, then the old one drains.",
    body: z.strictObject({ id: idSchema, ...commandFields }),
  },
  "replica.kill": {
    direction: "report",
    from: ["operator"],
    says: "An operator sends a signal to the process of a replica, through its node.",
    body: z.strictObject({ id: idSchema, signal: z.enum(killSignals), ...commandFields }),
  },
  "command.cancel": {
    direction: "report",
    from: ["operator"],
    says: "An operator takes back a command that is not done yet.",
    body: z.strictObject({ target: idSchema, ...commandFields }),
  },
  "fleet.changed": {
    direction: "event",
    from: ["controller"],
    says: "The health of a managed replica changed, and why.",
    body: z.strictObject({
      id: idSchema,
      role: z.enum(replicaRoles),
      node: idSchema.nullable(),
      from: z.enum(fleetHealths),
      to: z.enum(fleetHealths),
      life: countSchema,
      deaths: countSchema,
      reason: textSchema,
    }),
  },
  "command.accepted": {
    direction: "event",
    from: ["controller"],
    says: "The controller took a command of an operator and works on it.",
    body: z.strictObject({
      ...said,
      /** The command itself, as JSON. */
      asked: textSchema,
      detail: textSchema,
    }),
  },
  "command.done": {
    direction: "event",
    from: ["controller"],
    says: "A command is over: done, cancelled, or overtaken by a later one.",
    body: z.strictObject({ ...said, outcome: z.enum(["done", "cancelled", "superseded"]), detail: textSchema }),
  },
  "command.refused": {
    direction: "event",
    from: ["controller"],
    says: "A command was not taken, and why.",
    body: z.strictObject({ ...said, asked: textSchema, reason: textSchema }),
  },
});
