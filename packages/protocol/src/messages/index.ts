/** The table of everything that is said: kind → direction, who may say it, meaning and schema of the body. */
import type { z } from "zod";
import type { Role } from "../ids.ts";
import { answerMessages } from "./answers.ts";
import { barrierMessages } from "./barrier.ts";
import { checkpointMessages } from "./checkpoint.ts";
import { type Direction, defineMessages } from "./define.ts";
import { fleetMessages } from "./fleet.ts";
import { groupsMessages } from "./groups.ts";
import { healthMessages } from "./health.ts";
import { jobMessages } from "./job.ts";
import { meshMessages } from "./mesh.ts";
import { nodeMessages } from "./node.ts";
import { phaseMessages } from "./phases.ts";
import { pieceMessages } from "./pieces.ts";
import { progressMessages } from "./progress.ts";
import { replicaMessages } from "./replica.ts";
import { sampleMessages } from "./samples.ts";
import { settingsMessages } from "./settings.ts";
import { shardMessages } from "./shards.ts";
import { stepMessages } from "./step.ts";
import { versionPartMessages } from "./version-parts.ts";
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
  ...answerMessages,
  ...pieceMessages,
  ...progressMessages,
  ...versionPartMessages,
  ...sampleMessages,
  ...barrierMessages,
  ...settingsMessages,
  ...phaseMessages,
  ...shardMessages,
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

/** True when a role may say a kind. */
export function maySay(role: Role, kind: Kind): boolean {
  const from: readonly Role[] = messageTable[kind].from;
  return from.includes(role);
}

/**
 * Every kind that a role may say, in the order of the table: what the broker lets it publish can be derived from it.
 *
 * @param direction - Only kinds that go this way.
 */
export function kindsSaidBy(role: Role, direction?: Direction): readonly Kind[] {
  return messageKinds.filter(
    (kind) => maySay(role, kind) && (direction === undefined || messageTable[kind].direction === direction),
  );
}
