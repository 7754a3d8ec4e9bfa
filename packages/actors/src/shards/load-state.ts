/** The shard that one rank of a trainer takes from a checkpoint. */
import type { RankPlan } from "@muster/collectives";
import type { StateSections } from "@muster/engine";
import type { Doors } from "../doors.ts";
import { errors } from "../errors.ts";
import type { RankDone } from "./rank-tickets.ts";
import { cutInto } from "./sharded-sections.ts";

/** Which checkpoint: the folder, and the manifests that it may have; `null` for any. */
interface Wanted {
  readonly path: string;
  readonly manifests: readonly string[] | null;
}

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
  { path, manifests }: Wanted,
  { plan, optimizer, rank, signal }: Own,
): Promise<Loaded> {
  const checkpoint = await doors.loadCheckpoint(path, signal);
  const { name, manifestDigest } = checkpoint.info;
  if (manifests && !manifests.includes(manifestDigest)) throw errors.CheckpointReplaced({ name });
  const bytesOf = (section: string): Uint8Array =>
    checkpoint.sections.find((each) => each.name === section)?.bytes ?? new Uint8Array();
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
  const sections = checkpoint.info.sections.map(({ name, bytes, digest }) => ({ name, bytes, digest }));
  return { state, written: { name, sections } };
}
