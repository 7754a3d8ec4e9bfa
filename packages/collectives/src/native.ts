/**
 * Every call that crosses into the addon. The only importer of `@muster/native`. Nothing is loaded before the first use, so
 * that code which never moves bytes (the simulator, the tools) runs without a built addon. Absent values are `null`.
 */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { messageOf } from "@muster/base";
import type { DataPlaneActivity, DataPlaneEvent, NetworkTimes } from "./activity-types.ts";
import { errors } from "./errors.ts";
import { checkBuild } from "./native-build.ts";
import type { NativeFailure } from "./native-failure.ts";

/** How a native operation ended. Its promise never rejects. */
export type NativeOutcome<T> = { readonly ok: true; readonly value: T } | NativeFailure;

/** An AbortSignal on the native side; see `cancellable`. */
export interface NativeCancellation {
  cancel(): void;
  /** Gives its file descriptor back. */
  dispose(): void;
}

/** Sections wanted; see `tableOf`. */
export interface NativeTable {
  /** Joined by NUL. */
  readonly names: string;
  /** In bytes. */
  readonly sizes: Float64Array;
  /** 16 hexadecimal digits each, one behind the other. */
  readonly digests: string;
}

/** An open version store. */
export interface NativeStore {
  /** Handle for `keepIn`. */
  readonly store: object;
  readonly addresses: readonly string[];
  /**
   * `names` joined by NUL; `sections` has the pieces of all sections, which is not changed while it runs, and `pieces` how many each has. Gives
   * the digests, 16 hexadecimal digits each, one behind the other.
   */
  publish(
    options: NativePublication & { readonly sections: readonly Uint8Array[]; readonly pieces: Uint32Array },
  ): Promise<NativeOutcome<string>>;
  /** As `publish`, with the sections of a `NativeMapped.mapped` that was not released. */
  keep(options: NativePublication & { readonly mapped: object }): Promise<NativeOutcome<string>>;
  holds(id: { lineage: number; version: number }): boolean;
  versions(): { lineage: number; version: number }[];
  close(): Promise<NativeOutcome<undefined>>;
}

/** What is published. */
export interface NativePublication {
  readonly lineage: number;
  readonly version: number;
  readonly names: string;
  readonly cancellation: NativeCancellation;
}

/** What is pulled, and from whom. `keepIn` is a `NativeStore.store`. */
export interface NativePull {
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  readonly holders: readonly string[];
  readonly lineage: number;
  readonly version: number;
  readonly wanted: NativeTable;
  readonly keepIn: object | null;
  readonly timeoutMs: number;
  /** Two u64 in host order: bytes that came over TCP and are verified, and all of them. */
  readonly progress: Uint8Array;
  readonly cancellation: NativeCancellation;
}

/** How a pull went. */
export interface NativePulled {
  readonly bytes: number;
  readonly via: "memory" | "tcp";
  readonly from: string;
  readonly wireBytes: number;
  readonly base: { readonly lineage: number; readonly version: number } | null;
}

/** Rows of a section, and where they go in the target. */
export interface NativeSlice {
  readonly from: number;
  readonly fromStride: number;
  readonly to: number;
  readonly toStride: number;
  readonly bytes: number;
  readonly count: number;
}

/** A version where it lies. */
export interface NativeMapped extends NativePulled {
  /** Handle for `keep`. */
  readonly mapped: object;
  /** Copies the bytes of a section, by its number in the order wanted, from one on; as many as `into` has and not more than there are. Not after `release`. */
  copyTo(options: {
    readonly section: number;
    readonly from: number;
    readonly into: Uint8Array;
    readonly timeoutMs: number;
    readonly cancellation: NativeCancellation;
  }): Promise<NativeOutcome<undefined>>;
  release(): void;
}

/** Bytes of a copy, and where it begins in a region; within it. They are not changed while it runs. */
export interface NativeRegionCopy {
  readonly bytes: Uint8Array;
  readonly at: number;
}

/** Shared memory. Small copies are done when the call returns. */
export interface NativeRegion {
  readonly fd: number;
  write(options: NativeRegionCopy): NativeOutcome<undefined> | Promise<NativeOutcome<undefined>>;
  read(options: NativeRegionCopy): NativeOutcome<undefined> | Promise<NativeOutcome<undefined>>;
  hide(): void;
  /** Nothing is asked of it afterwards. */
  close(): void;
}

/** An open mesh. `shard` and `result` make a new view of some elements at each call: ask once, and only before `close`. */
export interface NativeMesh {
  shard(index: number, from: number, elements: number): Float32Array;
  result(from: number, elements: number): Float32Array;
  reduce(options: {
    op: number;
    written: readonly number[];
    timeoutMs: number;
    cancellation: NativeCancellation;
  }): Promise<NativeOutcome<undefined>>;
  abort(reason: string): void;
  close(): void;
}

/** How long one copy to all targets took. */
export interface NativeFanOutSample {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** Who the members of a mesh or group are, and how they meet. */
export interface NativeMembership {
  readonly key: Uint8Array;
  readonly job: string;
  readonly epoch: number;
  readonly rank: number;
  readonly members: readonly string[];
  readonly socketDir: string;
  /** By rank; empty when all members are on one host. */
  readonly places: readonly { host: string; address: string }[];
  /** A `NativeStore.store`; needed with places. */
  readonly store: object | null;
  readonly timeoutMs: number;
}

/** One collective operation. `peer` is the root of a broadcast, or the other side of a message. */
export interface NativeOperation {
  readonly kind: "barrier" | "allReduce" | "reduceScatter" | "allGather" | "broadcast" | "send" | "receive";
  readonly dtype: "f32" | "bf16" | "u8";
  /** Elements. */
  readonly count: number;
  readonly mean: boolean;
  readonly peer: number;
  /** Where a message is received. */
  readonly into: Uint8Array | null;
  /** Gathered into the input before, filled from the result after. */
  readonly parts: NativeParts | null;
}

/**
 * The tensors of a fused operation, in lists of equal length: an object for each took longer to read in the addon than they take to add up,
 * when they were a thousand. The lists are not changed while it runs.
 */
export interface NativeParts {
  readonly from: readonly Uint8Array[];
  readonly into: readonly Uint8Array[];
  /** Where each begins in input and result, in bytes. */
  readonly offsets: Float64Array;
}

/** An open group. `input` and `result` make a new view of some bytes at each call: ask once, and only before `close`. */
export interface NativeGroup {
  input(from: number, bytes: number): ArrayBuffer;
  result(from: number, bytes: number): ArrayBuffer;
  run(
    options: NativeOperation & { timeoutMs: number; cancellation: NativeCancellation },
  ): Promise<NativeOutcome<undefined>>;
  abort(reason: string): void;
  close(): void;
}

/** What is measured of the host itself. */
export interface NativeMeasurement {
  readonly bytes: number;
  readonly targets: number;
  readonly threads: number;
  readonly samples: number;
}

/** The addon. */
export interface NativeModule {
  /** Names the sources of the binding that it was built from; see `checkBuild`. */
  readonly build?: string;
  readonly Cancellation: new () => NativeCancellation;
  digest(bytes: Uint8Array): string;
  /**
   * On a thread of its own: 16 hexadecimal digits of each section, one behind the other. `sections` has the pieces of all of them, and `pieces` how many each
   * has. The list and its bytes are not changed while it runs.
   */
  digestAll(options: {
    readonly sections: readonly Uint8Array[];
    readonly pieces: Uint32Array;
    readonly cancellation: NativeCancellation;
  }): Promise<NativeOutcome<string>>;
  /** Whether this processor has instructions for SHA-256. */
  hasShaInstructions(): boolean;
  /** On a thread of its own: SHA-256 of all pieces, 32 bytes each, one behind the other. The list and its bytes are not changed while it runs. */
  sha256Each(pieces: readonly Uint8Array[]): Promise<NativeOutcome<Uint8Array>>;
  capabilities(): { sharedMemory: boolean; reason: string | null; version: string };
  usage(): { connections: number; mappedBytes: number };
  activity(): DataPlaneActivity;
  takeEvents(): { events: DataPlaneEvent[]; forgotten: number };
  hearEvents(listener: (() => void) | null): void;
  /** Has a signal that has a handler end the process when the main loop does not turn within five seconds of it. On the main thread alone. */
  guardSignal(signal: number): void;
  setNetworkTimes(times: NetworkTimes): NativeOutcome<undefined>;
  openStore(options: {
    key: Uint8Array;
    job: string;
    member: string;
    socketDir: string;
    tcpHost: string | null;
    slotBytes: number;
    slots: number;
    delta: { mode: "never" | "auto" | "always"; anchorEvery: number; keep: number };
  }): Promise<NativeOutcome<NativeStore>>;
  /** Copies into `into`, one buffer for each section wanted; the list is not changed while it runs. */
  pullVersion(options: NativePull & { readonly into: readonly Uint8Array[] }): Promise<NativeOutcome<NativePulled>>;
  mapVersion(options: NativePull): Promise<NativeOutcome<NativeMapped>>;
  /** Writes rows of one section into `into`, all or none. `section.digest` is 16 hexadecimal digits. */
  pullSlices(
    options: Omit<NativePull, "wanted" | "keepIn" | "progress"> & {
      readonly section: { readonly name: string; readonly bytes: number; readonly digest: string };
      readonly slices: readonly NativeSlice[];
      readonly into: Uint8Array;
    },
  ): Promise<NativeOutcome<Omit<NativePulled, "base">>>;
  measureFanOut(options: NativeMeasurement): Promise<NativeOutcome<readonly NativeFanOutSample[]>>;
  measureCopies(options: NativeMeasurement): Promise<NativeOutcome<readonly NativeFanOutSample[]>>;
  /** Adds up `targets` sources. */
  measureAddUp(options: NativeMeasurement): Promise<NativeOutcome<readonly NativeFanOutSample[]>>;
  openRegion(options: { readonly name: string; readonly bytes: number }): NativeOutcome<NativeRegion>;
  openMesh(
    options: NativeMembership & { shards: number; shardElements: number; cancellation: NativeCancellation },
  ): Promise<NativeOutcome<NativeMesh>>;
  /** `gloo`: path of the transport over Gloo; `null` for our own. */
  openGroup(
    options: NativeMembership & {
      name: string;
      capacityBytes: number;
      gloo: string | null;
      cancellation: NativeCancellation;
    },
  ): Promise<NativeOutcome<NativeGroup>>;
  /** Opens the transport over Gloo at this path. `reason` is why it cannot be used. */
  describeGloo(path: string): { reason: string | null; version: string | null };
}

let loaded: NativeModule | undefined;

/** The addon, loaded at the first call. @throws MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_STALE */
export function native(): NativeModule {
  if (loaded) return loaded;
  const require = createRequire(import.meta.url);
  const addon = load(require);
  checkBuild(addon.build, dirname(require.resolve("@muster/native")));
  loaded = addon;
  return loaded;
}

/** Where the build puts the transport over Gloo, when Gloo is installed. */
export function glooPath(): string {
  return join(dirname(createRequire(import.meta.url).resolve("@muster/native")), "build/Release/muster_gloo.so");
}

function load(require: NodeJS.Require): NativeModule {
  try {
    return require("@muster/native") as NativeModule;
  } catch (error) {
    const [reason] = messageOf(error).split("\n");
    throw errors.NativeMissing({ reason: reason ?? "" }, error);
  }
}

/** What runs under a signal: one listener for all, because Node warns of more than ten. */
interface Underway {
  readonly cancellations: Set<NativeCancellation>;
  readonly cancelAll: () => void;
}

const underway = new WeakMap<AbortSignal, Underway>();

/** Runs a native operation that ends early when `signal` aborts. */
export async function cancellable<T>(
  signal: AbortSignal,
  run: (cancellation: NativeCancellation) => Promise<NativeOutcome<T>>,
): Promise<NativeOutcome<T>> {
  const cancellation = new (native().Cancellation)();
  if (signal.aborted) cancellation.cancel();
  const { cancellations, cancelAll } = underwayUnder(signal);
  cancellations.add(cancellation);
  try {
    return await run(cancellation);
  } finally {
    cancellations.delete(cancellation);
    if (cancellations.size === 0) {
      signal.removeEventListener("abort", cancelAll);
      underway.delete(signal);
    }
    cancellation.dispose();
  }
}

function underwayUnder(signal: AbortSignal): Underway {
  const known = underway.get(signal);
  if (known) return known;
  const cancellations = new Set<NativeCancellation>();
  const cancelAll = (): void => {
    for (const each of cancellations) each.cancel();
  };
  signal.addEventListener("abort", cancelAll, { once: true });
  underway.set(signal, { cancellations, cancelAll });
  return { cancellations, cancelAll };
}
