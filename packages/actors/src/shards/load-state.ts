/** The shard that one rank of a trainer takes from a checkpoint. */
import type { RankPlan } from "@muster/collectives";
import type { StateSections } from "@muster/engine";
import type { Doors } from "../doors.ts";
import { errors } from "../errors.ts";
import { type CheckpointSource, readCheckpoint } from "../policy/read-checkpoint.ts";
import type { RankDone } from "./rank-tickets.ts";
import { cutInto } from "./sharded-sections.ts";

/** What this rank has of it: regions of the weights, and one shard of the optimizer of those that follow each other there. */
interface Own {
  readonly plan: RankPlan;
  /** Size of the shard of each rank. */
  readonly optimizer: readonly number[];
  readonly rank: number;
  readonly signal: AbortSignal;
}

interface Loaded {
  readonly state: StateSections;
  readonly written: NonNullable<RankDone["written"]>;
}

/** @throws what reading throws; MUSTER_ERR_CHECKPOINT_REPLACED, MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS */
export async function loadState(
  doors: Pick<Doors, "loadCheckpoint">,
  source: CheckpointSource,
  { plan, optimizer, rank, signal }: Own,
): Promise<Loaded> {
  const { info, bytesOf } = await readCheckpoint(doors, source, signal);
  const { name } = info;
  const total = optimizer.reduce((sum, bytes) => sum + bytes, 0);
  const all = bytesOf("optimizer");
  if (all.length !== total)
    throw errors.CheckpointOfOtherShards({
      ...{ name, size: optimizer.length },
      reason: `its optimizer has ${all.length} bytes, and that of this job ${total}`,
    });
  const weights = new Uint8Array(plan.sectionBytes);
  cutInto(plan, bytesOf("weights"), weights);
  const from = optimizer.slice(0, rank).reduce((sum, bytes) => sum + bytes, 0);
  const state = { weights, optimizer: all.slice(from, from + (optimizer[rank] ?? 0)) };
  const sections = info.sections.map(({ name, bytes, digest }) => ({ name, bytes, digest }));
  return { state, written: { name, sections } };
}
