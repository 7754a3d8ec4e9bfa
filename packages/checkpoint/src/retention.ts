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
    b.lineage - a.lineage || b.step - a.step || b.version - a.version || b.term - a.term || (a.name < b.name ? 1 : -1)
  );
}

/**
 * Plans what retention removes.
 *
 * @param verified - Complete and verified checkpoints, newest first; damaged ones neither count nor go: they are evidence.
 * @param options - `keep` ≥ 1 newest versions stay, with every copy that several writers made of them, and all from the oldest `pinned` name on:
 *   who would go back to it may not have heard of the newer ones yet, or of some of them only. `spared` stays by itself, however old it is. `superseded` ones
 *   go although they are newer than what is pinned, unless they are among the newest.
 * @returns Names to remove, oldest first, so that an interrupted removal leaves the newer ones.
 */
export function planRetention(
  verified: readonly CheckpointInfo[],
  options: {
    readonly keep: number;
    readonly pinned: ReadonlySet<string>;
    readonly spared?: SparedVersion | null;
    readonly superseded?: readonly SupersededCheckpoint[];
  },
): readonly string[] {
  const versions = [...new Set(verified.map(versionOf))].slice(0, Math.max(1, options.keep));
  const oldestPinned = verified.findLastIndex(({ name }) => options.pinned.has(name));
  return verified
    .filter((info, i) => i > oldestPinned || (isSuperseded(info, options) && !options.pinned.has(info.name)))
    .filter((info) => !versions.includes(versionOf(info)) && !isSpared(info, options.spared))
    .map((info) => info.name)
    .reverse();
}

/** True when a checkpoint is one of those that never came to count. Pure. */
export function isSuperseded(
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
