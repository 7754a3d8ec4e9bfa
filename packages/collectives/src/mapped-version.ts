/** What a pull gives: how it went, and a version where it lies. */

/** Name of a weight version: one line of weights between rollbacks, and the counter of updates in it. Whole numbers ≥ 0. */
export interface VersionId {
  readonly lineage: number;
  readonly version: number;
}

/** How a pull went. */
export interface PullResult {
  readonly bytes: number;
  readonly durationMs: number;
  /** `memory`: mapped from a holder on this host; `tcp`: streamed. */
  readonly via: "memory" | "tcp";
  /** Address of the holder; of the last one, when a stream changed holders on its way. */
  readonly from: string;
  /** Bytes of the version that crossed a network: 0 by memory, fewer than `bytes` when some came as deltas. */
  readonly wireBytes: number;
  /** The version that deltas were applied to; `null` when it came whole. */
  readonly base: VersionId | null;
}

/** How a section of a mapped version is copied. */
export interface CopyOptions {
  /** Longest duration in milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** First byte of the section; all of it when this is left out. */
  readonly from?: number;
}

/** A version where it lies: in the memory of a holder on this host, in `keepIn`, or in private memory. */
export interface MappedVersion extends PullResult {
  /**
   * Copies a section into memory of exactly its size, on threads of the data plane and without a view: V8 learns nothing of these bytes. With
   * `from`, only as many bytes as `into` has, from this one on: so a section may be larger than what JavaScript can hold. After an error the
   * content of `into` is of no use.
   *
   * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a section that was not asked for, for memory of another size, and after `release`;
   *   MUSTER_ERR_PULL_TIMEOUT, MUSTER_ERR_PULL_ABORTED
   */
  copyTo(section: string, into: Uint8Array, options: CopyOptions): Promise<void>;
  /** Gives the memory back. Harmless twice. Without it the garbage collector does, at some time. */
  release(): void;
}
