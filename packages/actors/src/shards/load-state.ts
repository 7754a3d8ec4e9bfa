/** The shard that one rank of a trainer takes from a checkpoint: it reads no other one's. */
import type { CheckpointInfo } from "@muster/checkpoint";
import type { RankPlan } from "@muster/collectives";
import type { StateSections } from "@muster/engine";
import type { Doors } from "../doors.ts";
import { errors } from "../errors.ts";
import { type CheckpointSource, checkMeant } from "../policy/read-checkpoint.ts";
import type { RankDone } from "./rank-tickets.ts";

/** What this rank has of it: regions of the weights, and one shard of the optimizer of those that follow each other there. */
interface Own {
  readonly plan: RankPlan;
  /** Size of the weights of all ranks in one process. */
  readonly weightsBytes: number;
  /** Size of the shard of each rank. */
  readonly optimizer: readonly number[];
  readonly rank: number;
  readonly signal: AbortSignal;
}

interface Loaded {
  readonly state: StateSections;
  readonly written: NonNullable<RankDone["written"]>;
}

/**
 * Nothing that was read is verified here: rank 0 compares the digests of all shards with those of the checkpoint.
 *
 * @throws what reading throws; MUSTER_ERR_CHECKPOINT_REPLACED, MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS
 */
export async function loadState(
  doors: Pick<Doors, "loadCheckpointParts">,
  source: CheckpointSource,
  own: Own,
): Promise<Loaded> {
  const { plan, optimizer, rank, signal } = own;
  const state = { weights: new Uint8Array(), optimizer: new Uint8Array() };
  const choose = (info: CheckpointInfo) => {
    checkMeant(source, info);
    checkSizes(info, own);
    state.weights = new Uint8Array(plan.sectionBytes);
    state.optimizer = new Uint8Array(optimizer[rank] ?? 0);
    const { length: bytes } = state.optimizer;
    const sourceOffset = optimizer.slice(0, rank).reduce((sum, size) => sum + size, 0);
    const shard = { sourceOffset, sourceStride: bytes, targetOffset: 0, targetStride: bytes, bytes, count: 1 };
    return [
      { section: "weights", rows: plan.slices, into: state.weights },
      { section: "optimizer", rows: [shard], into: state.optimizer },
    ] as const;
  };
  const { info } = await doors.loadCheckpointParts(source.path, choose, signal);
  const sections = info.sections.map(({ name, bytes, digest }) => ({ name, bytes, digest }));
  return { state, written: { name: info.name, sections } };
}

function checkSizes({ name, sections }: CheckpointInfo, { weightsBytes, optimizer }: Own): void {
  const wanted = { weights: weightsBytes, optimizer: optimizer.reduce((sum, bytes) => sum + bytes, 0) };
  for (const section of ["weights", "optimizer"] as const) {
    const bytes = sections.find((one) => one.name === section)?.bytes ?? 0;
    if (bytes === wanted[section]) continue;
    const reason = `its ${section} has ${bytes} bytes, and that of this job ${wanted[section]}`;
    throw errors.CheckpointOfOtherShards({ name, size: optimizer.length, reason });
  }
}
