/** Which weights. */

/** A lineage and version: which weights. */
export interface VersionKey {
  readonly lineage: number;
  readonly version: number;
}

/**
 * True when a version is older than one of those known. The broker may deliver an order again after newer ones, and weights never go back
 * (S9): only a new lineage has lower versions. Pure.
 */
export function isOlder({ lineage, version }: VersionKey, known: readonly (VersionKey | null)[]): boolean {
  return known.some(
    (one) => one !== null && (lineage < one.lineage || (lineage === one.lineage && version < one.version)),
  );
}

/** True for two names of one version. Pure. */
export function isSame(a: VersionKey | null, b: VersionKey | null): boolean {
  return a !== null && a.lineage === b?.lineage && a.version === b.version;
}
