/** What this host offers to GPU transports, and where it does not, why. */
import { checkTimeout } from "../check.ts";
import { errorOf } from "../errors.ts";
import { cancellable } from "../native.ts";
import { type NativeGpuLibrary, type NativeGpuReport, nativeGpu } from "../native-gpu.ts";
import type { GpuLibraries } from "./libraries.ts";

/** A library that was found, or why it can not be used. */
export interface GpuLibrary {
  /** Why it can not be used; absent when it can. */
  readonly reason?: string;
  /** Where it was looked for in vain, and what the linker said. */
  readonly failed: readonly { readonly path: string; readonly error: string }[];
  /** Where it was found. */
  readonly path?: string;
  /** `13.0` for the CUDA driver, `2.27.3` for NCCL. */
  readonly version?: string;
  /** Functions that it does not have and that something could use. */
  readonly missing: readonly string[];
}

/** One GPU. */
export interface GpuDevice {
  readonly index: number;
  readonly name: string;
  readonly memoryBytes: number;
  /** Compute capability, e.g. `9.0`. */
  readonly compute: string;
  /** True when other processes can map its memory by file descriptor. */
  readonly sharing: boolean;
}

/** Something that works on this host or does not. */
export interface GpuFeature {
  readonly name: string;
  readonly works: boolean;
  /** What is lacking, or what it takes to use it. */
  readonly note?: string;
}

/** What this host offers. */
export interface GpuCapabilities {
  readonly cuda: GpuLibrary;
  readonly nccl: GpuLibrary;
  readonly devices: readonly GpuDevice[];
  readonly features: readonly GpuFeature[];
}

/**
 * Loads the CUDA driver and NCCL where they are, and asks them. Nothing of a GPU is used or reserved.
 *
 * @param libraries See `gpuLibrariesOf`.
 * @throws MUSTER_ERR_GPU_TIMEOUT when a library does not answer; it is left behind on a thread of its own.
 * @throws MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_OPTION_INVALID
 */
export async function gpuCapabilities(
  libraries: GpuLibraries,
  wait: { readonly deadlineMs: number; readonly signal: AbortSignal },
): Promise<GpuCapabilities> {
  const timeoutMs = checkTimeout("deadlineMs", wait.deadlineMs);
  const { cuda = "", nccl } = libraries;
  const report = await cancellable(wait.signal, (cancellation) =>
    nativeGpu().describeGpus({ cuda, nccl, timeoutMs, cancellation }),
  );
  if (!report.ok) throw errorOf("gpu", report, { timeoutMs, what: "asking the GPU libraries" });
  return capabilitiesOf(report.value);
}

function capabilitiesOf({ cuda, nccl }: NativeGpuReport): GpuCapabilities {
  return {
    cuda: libraryOf(cuda, `${Math.floor(cuda.version / 1000)}.${Math.floor((cuda.version % 1000) / 10)}`),
    nccl: libraryOf(nccl, ncclVersionOf(nccl.version)),
    devices: cuda.devices,
    features: featuresOf(cuda, nccl),
  };
}

function libraryOf({ reason, failed, path, version, missing }: NativeGpuLibrary, versionText: string): GpuLibrary {
  return {
    failed,
    missing,
    ...(reason === null ? {} : { reason }),
    ...(path === "" ? {} : { path }),
    ...(version === 0 ? {} : { version: versionText }),
  };
}

function ncclVersionOf(version: number): string {
  return `${Math.floor(version / 10_000)}.${Math.floor((version % 10_000) / 100)}.${version % 100}`;
}

function featuresOf(cuda: NativeGpuReport["cuda"], nccl: NativeGpuReport["nccl"]): GpuFeature[] {
  const memory = cuda.reason === null && cuda.devices.length > 0;
  const collectives = memory && nccl.reason === null;
  const withNccl = (name: string, has: boolean, note: string): GpuFeature => ({
    name,
    works: collectives && has,
    note,
  });
  return [
    { name: "device memory", works: memory },
    {
      name: "memory between processes",
      works: memory && cuda.devices.some(({ sharing }) => sharing),
      note: "needs virtual memory with file descriptors: a driver since 11.2, and not every virtual GPU",
    },
    { name: "collectives", works: collectives, note: "needs NCCL 2.14" },
    withNccl("shrink", nccl.shrink, "NCCL 2.27; without it a communicator is made anew"),
    withNccl("grow", nccl.grow, "NCCL 2.29; Muster makes communicators anew instead"),
    withNccl("revoke", nccl.revoke, "NCCL 2.28.7; Muster aborts instead"),
    withNccl("several ranks on one gpu", nccl.severalRanksPerGpu, "NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1"),
  ];
}
