/** Replicas of several processes: each has a rank, and rank 0 is the one that speaks for the replica. */
import { z } from "zod";
import { devicesSchema } from "./devices.ts";
import { countSchema } from "./envelope.ts";
import { idSchema } from "./ids.ts";
import { replicaRoles } from "./role-table.ts";

/** Most processes of a replica. */
export const ranksMax = 4_096;

/** Most processes of replicas of several on one node: one message names them all. */
export const nodeRanksMax = 1_024;

/** Schema of the rank of a process; absent where it is 0, as it is of every replica of one process. */
export const rankSchema = countSchema.max(ranksMax - 1);

/** Schema of a process of a replica of several, as its node is told of it. */
export const rankOrderSchema = z.strictObject({
  id: idSchema,
  role: z.enum(replicaRoles),
  rank: rankSchema,
  /** The life of the whole replica: a process of an earlier one is ended at once. */
  life: countSchema,
  /** False while it must not begin: others of the last life have not ended, or rank 0 has not said its port. */
  isDue: z.boolean(),
  /** Processes of the replica. */
  size: countSchema.min(2).max(ranksMax),
  /** Its number, and how many there are, among those of its replica on its host; the number of the host among those of the replica. */
  localRank: rankSchema,
  localSize: countSchema.min(1).max(ranksMax),
  nodeRank: rankSchema,
  /** Where rank 0 is met. Port 0, for rank 0 itself: its node reserves one. */
  master: z.strictObject({ address: z.string().min(1).max(256), port: countSchema.max(65_535) }),
  devices: devicesSchema.optional(),
});

/** A process of a replica of several, as its node is told of it. */
export type RankOrder = z.infer<typeof rankOrderSchema>;

/** The name of a process on its host: the replica's for rank 0, `rollout-0.3` for rank 3. No id has a dot. Pure. */
export function processNameOf(id: string, rank: number): string {
  return rank === 0 ? id : `${id}.${rank}`;
}

/** The replica and the rank that a name of {@link processNameOf} stands for; the rank is absent where it is 0. Pure. */
export function processOf(name: string): { readonly id: string; readonly rank?: number } {
  const [id = "", rank] = name.split(".");
  return rank === undefined ? { id } : { id, rank: Number(rank) };
}
