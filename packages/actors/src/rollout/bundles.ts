/** What is stored in the groups stream together: as much as fits into one message. */
import { failureKindOf, placeholderOf } from "@muster/engine";
import {
  type BegunPart,
  pack,
  packedBytesAtMost,
  type TrajectoryGroup,
  toGroupsBatch,
  toGroupsBegun,
} from "@muster/protocol";
import { errors } from "../errors.ts";

/** What decides how things are bundled, in bytes. */
export interface BundleBounds {
  /** Of a bundle of several groups: it is one message. */
  readonly messageBytes: number;
  /** Of a group alone, in however many pieces: more than that nobody reads. */
  readonly bodyBytesMax: number;
}

/**
 * Finished groups in as few bundles as may be, in order. A group that is larger than any of its job can be is one of aborted trajectories, whose error
 * says so: it would be as large wherever it is generated, and no engine is at fault. Pure.
 */
export function bundlesOfGroups(
  groups: readonly TrajectoryGroup[],
  { messageBytes, bodyBytesMax }: BundleBounds,
): readonly (readonly TrajectoryGroup[])[] {
  // The usual case: there is room for all, whatever they take exactly.
  if (groups.length > 0 && packedBytesAtMost(groups) <= Math.min(messageBytes, bodyBytesMax)) return [groups];
  const sized = groups.map((group) => {
    const bytes = pack(toGroupsBatch([group])).length;
    return bytes <= bodyBytesMax ? { item: group, bytes } : { item: tooLarge(group, bytes, bodyBytesMax), bytes: 0 };
  });
  return bundlesOf(sized, messageBytes);
}

/** Parts of begun groups in as few bundles as may be, in order. Pure. */
export function bundlesOfBegun(parts: readonly BegunPart[], messageBytes: number): readonly (readonly BegunPart[])[] {
  const sized = parts.map((item) => ({ item, bytes: pack(toGroupsBegun(0, [item])).length }));
  return bundlesOf(sized, messageBytes);
}

interface Sized<T> {
  readonly item: T;
  readonly bytes: number;
}

function bundlesOf<T>(sized: readonly Sized<T>[], bytesMax: number): readonly (readonly T[])[] {
  const bundles: T[][] = [];
  let room = 0;
  for (const { item, bytes } of sized) {
    const bundle = bundles.at(-1);
    if (bundle && bytes <= room) bundle.push(item);
    else {
      bundles.push([item]);
      room = bytesMax;
    }
    room -= bytes;
  }
  return bundles;
}

function tooLarge(group: TrajectoryGroup, bytes: number, limit: number): TrajectoryGroup {
  const error = errors.GroupTooLarge({ group: group.groupId, bytes, limit });
  const trajectories = group.trajectories.map(() => placeholderOf(error, failureKindOf(error)));
  return { ...group, trajectories };
}
