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

/** The GPU functions of the addon. */
export interface NativeGpuModule {
  describeGpus(options: {
    /** Path of libcuda, or "". */
    cuda: string;
    nccl: readonly string[];
    timeoutMs: number;
    cancellation: NativeCancellation;
  }): Promise<NativeOutcome<NativeGpuReport>>;
}

/** The addon's GPU part. @throws MUSTER_ERR_NATIVE_MISSING */
export function nativeGpu(): NativeGpuModule {
  return native() as NativeModule & NativeGpuModule;
}
