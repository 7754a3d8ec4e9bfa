/** What is stored in the groups stream, cut so that each piece fits into one message. */
import { failureKindOf, placeholderOf } from "@muster/engine";
import {
  type BegunGroup,
  groupsMessageBytesMax,
  pack,
  type TrajectoryGroup,
  toGroupsBatch,
  toGroupsBegun,
} from "@muster/protocol";
import { errors } from "../errors.ts";

/**
 * Finished groups in as few pieces as fit, in order. A group that is too large alone is one of aborted trajectories, whose error says so: it would be
 * as large wherever it is generated, and no engine is at fault. Pure.
 */
export function piecesOfGroups(
  groups: readonly TrajectoryGroup[],
  bytesMax = groupsMessageBytesMax,
): readonly (readonly TrajectoryGroup[])[] {
  const sized = groups.map((group) => {
    const bytes = pack(toGroupsBatch([group])).length;
    return bytes <= bytesMax ? { item: group, bytes } : { item: tooLarge(group, { bytes, limit: bytesMax }), bytes: 0 };
  });
  return piecesOf(sized, bytesMax);
}

/** Begun groups in as few pieces as fit, in order. Of one that is too large alone nothing is kept: it is generated from its beginning. Pure. */
export function piecesOfBegun(
  groups: readonly BegunGroup[],
  bytesMax = groupsMessageBytesMax,
): readonly (readonly BegunGroup[])[] {
  const sized = groups.map((group) => {
    const bytes = pack(toGroupsBegun(0, [group])).length;
    return bytes <= bytesMax ? { item: group, bytes } : { item: emptied(group), bytes: 0 };
  });
  return piecesOf(sized, bytesMax);
}

interface Sized<T> {
  readonly item: T;
  readonly bytes: number;
}

function piecesOf<T>(sized: readonly Sized<T>[], bytesMax: number): readonly (readonly T[])[] {
  const pieces: T[][] = [];
  let room = 0;
  for (const { item, bytes } of sized) {
    const piece = pieces.at(-1);
    if (piece && bytes <= room) piece.push(item);
    else {
      pieces.push([item]);
      room = bytesMax;
    }
    room -= bytes;
  }
  return pieces;
}

function tooLarge(group: TrajectoryGroup, { bytes, limit }: { readonly bytes: number; readonly limit: number }) {
  const error = errors.GroupTooLarge({ group: group.groupId, bytes, limit });
  const trajectories = group.trajectories.map(() => placeholderOf(error, failureKindOf(error)));
  return { ...group, trajectories };
}

function emptied(group: BegunGroup): BegunGroup {
  const nothing = { responseIds: new Int32Array(0), logprobs: new Float32Array(0), finish: null, segments: [] };
  return { ...group, responses: group.responses.map(() => nothing) };
}
