/** The shard that one rank of a trainer takes from a checkpoint: it reads no other one's. */
import type { CheckpointInfo } from "@muster/checkpoint";
import type { RankPlan } from "@muster/collectives";
import { roomFor, type StateViews } from "@muster/engine";
import { errors } from "../errors.ts";
import { partsInto } from "../parts-into.ts";
import { type CheckpointSource, checkMeant } from "../policy/read-checkpoint.ts";
import type { Ports } from "../ports.ts";
import type { RankDone } from "./rank-tickets.ts";

/** What this rank has of it: regions of the weights, and one shard of the optimizer of those that follow each other there. */
interface Own {
  readonly plan: RankPlan;
  /** Size of the weights of all ranks in one process. */
  readonly weightsBytes: number;
  /** Size of the shard of each rank. */
  readonly optimizer: readonly number[];
  readonly rank: number;
  /** Most bytes of one array; a shard that is larger is read in pieces. */
  readonly pieceMax: number;
  readonly signal: AbortSignal;
}

interface Loaded {
  readonly state: StateViews;
  readonly written: NonNullable<RankDone["written"]>;
}

/**
 * Nothing that was read is verified here: rank 0 compares the digests of all shards with those of the checkpoint.
 *
 * @throws what reading throws; MUSTER_ERR_CHECKPOINT_REPLACED, MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS
 */
export async function loadState(
  ports: Pick<Ports, "loadCheckpointParts">,
  source: CheckpointSource,
  own: Own,
): Promise<Loaded> {
  const { plan, optimizer, rank, pieceMax, signal } = own;
  let state: StateViews = { weights: [], optimizer: [] };
  const choose = (info: CheckpointInfo) => {
    checkMeant(source, info);
    checkSizes(info, own);
    const bytes = optimizer[rank] ?? 0;
    state = { weights: roomFor(plan.sectionBytes, pieceMax), optimizer: roomFor(bytes, pieceMax) };
    const sourceOffset = optimizer.slice(0, rank).reduce((sum, size) => sum + size, 0);
    const shard = { sourceOffset, sourceStride: bytes, targetOffset: 0, targetStride: bytes, bytes, count: 1 };
    return [
      ...partsInto("weights", plan.slices, state.weights),
      ...partsInto("optimizer", bytes > 0 ? [shard] : [], state.optimizer),
    ];
  };
  const { info } = await ports.loadCheckpointParts(source.path, choose, signal);
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
