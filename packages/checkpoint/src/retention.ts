/** Which checkpoints may go. Pure. */
import type { CheckpointInfo } from "./read.ts";

/** A version that stays however old it is, with every copy of it. */
export interface SparedVersion {
  readonly step: number;
  readonly version: number;
}

/** One checkpoint by its name and its manifest: another one of that name is not meant. */
export interface SupersededCheckpoint {
  readonly name: string;
  readonly manifestDigest: string;
}

/** True when a step is before another: in an older lineage, or earlier in the same one. */
export function isBefore(a: Point, b: Point): boolean {
  return a.lineage < b.lineage || (a.lineage === b.lineage && a.step < b.step);
}

type Point = Pick<CheckpointInfo, "lineage" | "step">;

/** Orders checkpoints newest first: by lineage, step, version, term, attempt (names of one step sort by attempt). */
export function newestFirst(a: CheckpointInfo, b: CheckpointInfo): number {
  return (
    b.lineage - a.lineage || b.step - a.step || b.version - a.version || b.term - a.term || byAttempt(b.name, a.name)
  );
}

const { compare: byAttempt } = new Intl.Collator("en", { numeric: true });

/** What retention goes by. */
export interface RetentionRule {
  /** Newest versions that stay, with every copy that several writers made of them, ≥ 1. */
  readonly keep: number;
  /** Newest versions that stay while nothing that is pinned is here, where that is more. */
  readonly keepUnpinned?: number | undefined;
  /** All from the oldest of these names on stay: who would go back to it may not have heard of the newer ones yet, or of some of them only. */
  readonly pinned: ReadonlySet<string>;
  /** The one that is about to be reported stays, and all that is newer. */
  readonly saved?: string | undefined;
  /** Stays by itself, however old it is. */
  readonly spared?: SparedVersion | null;
  /** Go although they are newer than what is pinned, unless they are among the newest. */
  readonly superseded?: readonly SupersededCheckpoint[];
  /** There is no room for one more: superseded ones go also when they are among the newest. */
  readonly isFull?: boolean;
}

/**
 * Plans what retention removes.
 *
 * @param verified - Complete and verified checkpoints, newest first; damaged ones neither count nor go: they are evidence.
 * @returns Names to remove, oldest first, so that an interrupted removal leaves the newer ones.
 */
export function planRetention(verified: readonly CheckpointInfo[], rule: RetentionRule): readonly string[] {
  const { keep, keepUnpinned = keep, pinned, saved, spared, isFull = false } = rule;
  const versions = [...new Set(verified.map(versionOf))];
  const isNewest = (info: CheckpointInfo, count: number) =>
    versions.slice(0, Math.max(1, count)).includes(versionOf(info));
  const isPinned = verified.some(({ name }) => pinned.has(name));
  const oldest = verified.findLastIndex(({ name }) => pinned.has(name) || name === saved);
  return verified
    .filter((info, i) => {
      if (pinned.has(info.name) || info.name === saved || isSpared(info, spared)) return false;
      if (isSuperseded(info, rule) && (isFull || !isNewest(info, keep))) return true;
      // no mutant: the oldest of them has been left above
      const isOlder = i > oldest;
      return isOlder && !isNewest(info, isPinned ? keep : Math.max(keep, keepUnpinned));
    })
    .map((info) => info.name)
    .reverse();
}

/** True when a checkpoint is one of those that never came to count. Pure. */
function isSuperseded(
  { name, manifestDigest }: CheckpointInfo,
  { superseded = [] }: { readonly superseded?: readonly SupersededCheckpoint[] },
): boolean {
  return superseded.some((one) => one.name === name && one.manifestDigest === manifestDigest);
}

function isSpared({ step, version }: CheckpointInfo, spared: SparedVersion | null | undefined): boolean {
  return spared?.step === step && spared.version === version;
}

function versionOf({ lineage, step, version }: CheckpointInfo): string {
  return `${lineage}/${step}/${version}`;
}
