/** A checkpoint whose sections may be larger than an array of JavaScript: read in pieces, and compared with its digests when all of it is here. */
import type { StridedRows } from "@muster/base";
import type { CheckpointInfo, ChooseParts } from "@muster/checkpoint";
import { roomFor, type StateViews } from "@muster/engine";
import { errors } from "../errors.ts";
import { partsInto } from "../parts-into.ts";
import type { Ports } from "../ports.ts";
import { type CheckpointSource, checkMeant, checkWhole } from "./read-checkpoint.ts";

const sectionNames = ["weights", "optimizer"] as const;

/** Sizes of the state of the engine in bytes, and of the largest piece of it. */
interface Room {
  readonly weights: number;
  readonly optimizer: number;
  readonly pieceMax: number;
}

/**
 * Reads all of a checkpoint that has sections of these sizes. Needs memory for that, and for a few portions of 4 MiB.
 *
 * @throws what reading throws; MUSTER_ERR_CHECKPOINT_REPLACED, MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS, MUSTER_ERR_CHECKPOINT_OF_OTHER_MODEL, MUSTER_ERR_CHECKPOINT_DIFFERS
 */
export async function readLarge(
  ports: Pick<Ports, "loadCheckpointParts" | "verifyCheckpoint" | "digests">,
  source: CheckpointSource,
  { pieceMax, ...sizes }: Room,
  signal: AbortSignal,
): Promise<StateViews> {
  let state: StateViews = { weights: [], optimizer: [] };
  const choose: ChooseParts = (info) => {
    checkMeant(source, info);
    checkWhole(info);
    for (const section of sectionNames) checkSize(info, section, sizes[section]);
    const room = { weights: roomFor(sizes.weights, pieceMax), optimizer: roomFor(sizes.optimizer, pieceMax) };
    state = room;
    return sectionNames.flatMap((section) => partsInto(section, rowsOf(sizes[section]), room[section]));
  };
  const { info } = await ports.loadCheckpointParts(source.path, choose, signal);
  const found = await ports.digests([state.weights, state.optimizer], signal);
  for (const [i, section] of sectionNames.entries()) {
    const wanted = digestIn(info, section);
    if (found[i] === wanted) continue;
    // Damage has an error that says where it is.
    await ports.verifyCheckpoint(source.path, signal);
    throw errors.CheckpointDiffers({ name: info.name, section, found: found[i] ?? "none", wanted });
  }
  return state;
}

/** All of a section, as the one row that it is. */
function rowsOf(bytes: number): readonly StridedRows[] {
  const row = { sourceOffset: 0, sourceStride: bytes, targetOffset: 0, targetStride: bytes, bytes, count: 1 };
  return bytes > 0 ? [row] : [];
}

function checkSize({ name, sections }: CheckpointInfo, section: string, expectedBytes: number): void {
  const bytes = sections.find((one) => one.name === section)?.bytes ?? 0;
  if (bytes !== expectedBytes) throw errors.CheckpointOfOtherModel({ name, section, bytes, expectedBytes });
}

const digestIn = ({ sections }: CheckpointInfo, section: string): string =>
  sections.find(({ name }) => name === section)?.digest ?? "none";
