/** Which checkpoints may go. Pure. */
import type { CheckpointInfo } from "./read.ts";

/** A version that stays however old it is, with every copy of it. */
export interface SparedVersion {
  readonly step: number;
  readonly version: number;
}

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
 *   who would go back to it may not have heard of the newer ones yet, or of some of them only. `spared` stays by itself, however old it is.
 * @returns Names to remove, oldest first, so that an interrupted removal leaves the newer ones.
 */
export function planRetention(
  verified: readonly CheckpointInfo[],
  options: { readonly keep: number; readonly pinned: ReadonlySet<string>; readonly spared?: SparedVersion | null },
): readonly string[] {
  const versions = [...new Set(verified.map(versionOf))].slice(0, Math.max(1, options.keep));
  const oldestPinned = verified.findLastIndex(({ name }) => options.pinned.has(name));
  return verified
    .slice(oldestPinned + 1)
    .filter((info) => !versions.includes(versionOf(info)) && !isSpared(info, options.spared))
    .map((info) => info.name)
    .reverse();
}

function isSpared({ step, version }: CheckpointInfo, spared: SparedVersion | null | undefined): boolean {
  return spared?.step === step && spared.version === version;
}

function versionOf({ lineage, step, version }: CheckpointInfo): string {
  return `${lineage}/${step}/${version}`;
}
