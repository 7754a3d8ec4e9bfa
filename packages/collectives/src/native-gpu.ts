/** The GPU part of the addon's types; see `native.ts`. */
import { type NativeCancellation, type NativeModule, type NativeOutcome, native } from "./native.ts";

/** What the addon says of a library. `reason` is why it cannot be used. */
export interface NativeGpuLibrary {
  readonly reason: string | null;
  readonly failed: readonly { readonly path: string; readonly error: string }[];
  readonly path: string;
  readonly version: number;
  readonly missing: readonly string[];
}

/** What the addon says of the host. */
export interface NativeGpuReport {
  readonly cuda: NativeGpuLibrary & {
    readonly devices: readonly {
      readonly index: number;
      readonly name: string;
      readonly memoryBytes: number;
      readonly compute: string;
      readonly sharing: boolean;
    }[];
  };
  readonly nccl: NativeGpuLibrary & {
    readonly shrink: boolean;
    readonly grow: boolean;
    readonly revoke: boolean;
    readonly severalRanksPerGpu: boolean;
  };
}

/** Deadline and abort of a native call. */
export interface NativeWait {
  readonly timeoutMs: number;
  readonly cancellation: NativeCancellation;
}

/** What comes behind the work on a stream: the address of a CUstream of the caller; `null`: behind nothing. */
interface NativeStreamWait extends NativeWait {
  readonly stream: bigint | null;
}

/** A copy to or from device memory. */
export interface NativeGpuCopy extends NativeStreamWait {
  readonly offset: number;
}

/** Device memory. `memory` is its handle; what crosses is checked on this side. */
export interface NativeGpuMemory {
  readonly memory: object;
  readonly bytes: number;
  write(options: NativeGpuCopy & { bytes: Uint8Array }): Promise<NativeOutcome<undefined>>;
  /** `mapped` is a `NativeMapped.mapped` that was not released; `section` its number in the order wanted. */
  writeFrom(
    options: NativeGpuCopy & { mapped: object; section: number; from: number; bytes: number },
  ): Promise<NativeOutcome<undefined>>;
  read(options: NativeGpuCopy & { bytes: Uint8Array }): Promise<NativeOutcome<undefined>>;
  close(): void;
}

/** A version in device memory as both sides name it. */
export interface NativeShelvedId {
  readonly lineage: number;
  readonly version: number;
  /** Hexadecimal digits. */
  readonly digest: string;
}

/** Who asks, or offers. */
export interface NativeMember {
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
}

/** Versions in device memory for other processes. */
export interface NativeGpuShelf {
  readonly address: string;
  put(options: NativeWait & NativeShelvedId & { memory: object; bytes: number }): Promise<NativeOutcome<undefined>>;
  close(): Promise<NativeOutcome<undefined>>;
}

/** A place in device memory, `offset` bytes from its beginning. */
export interface NativeOperand {
  readonly memory: object;
  readonly offset: number;
}

/** One operation in the addon's numbers; `null` operands are none. */
export interface NativeGpuCall {
  readonly collective: number;
  readonly from: NativeOperand | null;
  readonly to: NativeOperand | null;
  readonly count: number;
  readonly type: number;
  readonly reduction: number;
  readonly peer: number;
}

/** A communicator. */
export interface NativeCommunicator {
  readonly ranks: number;
  readonly rank: number;
  run(options: NativeStreamWait & { calls: readonly NativeGpuCall[] }): Promise<NativeOutcome<undefined>>;
  shrink(options: NativeWait & { excluded: readonly number[] }): Promise<NativeOutcome<NativeCommunicator>>;
  abort(reason: string): void;
  close(options: NativeWait): Promise<NativeOutcome<undefined>>;
}

/** An open GPU. */
export interface NativeGpu {
  readonly name: string;
  allocate(options: NativeWait & { bytes: number }): Promise<NativeOutcome<NativeGpuMemory>>;
  openShelf(options: NativeMember & { socketDir: string; slots: number }): Promise<NativeOutcome<NativeGpuShelf>>;
  takeVersion(
    options: NativeWait & NativeMember & NativeShelvedId & { holder: string },
  ): Promise<NativeOutcome<NativeGpuMemory>>;
  newId(options: NativeWait): Promise<NativeOutcome<Uint8Array>>;
  openCommunicator(
    options: NativeWait & { id: Uint8Array; ranks: number; rank: number; keepForShrink: boolean },
  ): Promise<NativeOutcome<NativeCommunicator>>;
}

/** The GPU functions of the addon. */
export interface NativeGpuModule {
  describeGpus(options: {
    /** Path of libcuda, or "". */
    cuda: string;
    nccl: readonly string[];
    timeoutMs: number;
    cancellation: NativeCancellation;
  }): Promise<NativeOutcome<NativeGpuReport>>;
  openGpu(
    options: NativeWait & { cuda: string; nccl: readonly string[]; index: number },
  ): Promise<NativeOutcome<NativeGpu>>;
}

/** The addon's GPU part. @throws MUSTER_ERR_NATIVE_MISSING */
export function nativeGpu(): NativeGpuModule {
  return native() as NativeModule & NativeGpuModule;
}
