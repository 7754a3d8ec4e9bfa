/** The table of everything that is said: kind → direction, meaning and schema of the body. */
import type { z } from "zod";
import { checkpointMessages } from "./checkpoint.ts";
import { type Direction, defineMessages } from "./define.ts";
import { fleetMessages } from "./fleet.ts";
import { groupsMessages } from "./groups.ts";
import { healthMessages } from "./health.ts";
import { jobMessages } from "./job.ts";
import { meshMessages } from "./mesh.ts";
import { nodeMessages } from "./node.ts";
import { replicaMessages } from "./replica.ts";
import { stepMessages } from "./step.ts";
import { weightsMessages } from "./weights.ts";

/** Every message of the protocol by kind. */
export const messageTable = defineMessages({
  ...replicaMessages,
  ...weightsMessages,
  ...meshMessages,
  ...groupsMessages,
  ...stepMessages,
  ...checkpointMessages,
  ...jobMessages,
  ...nodeMessages,
  ...fleetMessages,
  ...healthMessages,
});

/** Name of a message. */
export type Kind = keyof typeof messageTable;

/** Body of a message of this kind. */
export type Body<K extends Kind> = z.infer<(typeof messageTable)[K]["body"]>;

/** Kinds that go one way. */
export type KindOf<D extends Direction> = {
  [K in Kind]: (typeof messageTable)[K]["direction"] extends D ? K : never;
}[Kind];

/** Every kind, in the order of the table. */
export const messageKinds = Object.keys(messageTable) as readonly Kind[];

/** True when `kind` is in the table. */
export function isKind(kind: string): kind is Kind {
  return Object.hasOwn(messageTable, kind);
}
