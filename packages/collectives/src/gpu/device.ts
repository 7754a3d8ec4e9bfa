/** One GPU: its memory, and communicators on it. */
import { checkWhole } from "../check.ts";
import { errors } from "../errors.ts";
import { type NativeGpu, nativeGpu } from "../native-gpu.ts";
import { type GpuBuffer, OpenBuffer } from "./buffer.ts";
import { type GpuCommunicator, OpenCommunicator } from "./communicator.ts";
import type { GpuLibraries } from "./libraries.ts";
import { type GpuShelf, type GpuShelfOptions, openShelf, type TakeVersionOptions, takeVersion } from "./shelf.ts";
import { type GpuWait, gpuCall } from "./wait.ts";

export type { GpuWait } from "./wait.ts";

/** Bytes of an id of a communicator. */
const idBytes = 128;

/** A place among the ranks of an epoch. */
export interface CommunicatorOptions {
  /** What `newId` gave on one of the ranks. */
  readonly id: Uint8Array;
  readonly ranks: number;
  readonly rank: number;
  /**
   * Leaves the GPU as it is after a failure, so that `shrink` can still follow: until then, or until `close`, the GPU may use the buffers.
   * Default false: it is stopped at once.
   */
  readonly keepForShrink?: boolean;
}

/** One GPU as this process uses it. */
export interface Gpu {
  readonly name: string;
  /** Memory of its own. @throws MUSTER_ERR_GPU_FULL, MUSTER_ERR_GPU_MISSING where memory cannot be shared between processes. */
  allocate(bytes: number, wait: GpuWait): Promise<GpuBuffer>;
  /** Offers versions in the memory of this GPU to other processes of this host. @throws MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_NATIVE_FAILED */
  openShelf(options: GpuShelfOptions): Promise<GpuShelf>;
  /**
   * Maps a version that is on a shelf of this host, without a copy. It stays when the shelf or its process ends.
   *
   * @throws MUSTER_ERR_VERSION_GONE, MUSTER_ERR_PULL_DIGEST_MISMATCH, MUSTER_ERR_PULL_REFUSED (another key or job),
   *   MUSTER_ERR_PULL_UNREACHABLE, MUSTER_ERR_PULL_TIMEOUT, MUSTER_ERR_PULL_ABORTED, MUSTER_ERR_GPU_FAILED, MUSTER_ERR_GPU_MISSING
   */
  takeVersion(options: TakeVersionOptions, wait: GpuWait): Promise<GpuBuffer>;
  /** A fresh id for one communicator: made on one rank, and told to the others. @throws MUSTER_ERR_GPU_MISSING without NCCL. */
  newId(wait: GpuWait): Promise<Uint8Array>;
  /** Meets the other ranks. @throws MUSTER_ERR_GPU_TIMEOUT when they do not all come, MUSTER_ERR_GPU_MISSING without NCCL. */
  openCommunicator(options: CommunicatorOptions, wait: GpuWait): Promise<GpuCommunicator>;
}

/**
 * Opens GPU number `index`, in the driver's order.
 *
 * @param libraries See `gpuLibrariesOf`.
 * @throws MUSTER_ERR_GPU_MISSING without a driver or without that GPU.
 * @throws MUSTER_ERR_GPU_TIMEOUT, MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_GPU_FAILED, MUSTER_ERR_NATIVE_OPTION_INVALID
 */
export async function openGpu(libraries: GpuLibraries, index: number, wait: GpuWait): Promise<Gpu> {
  checkWhole("index", index, { min: 0, max: 1023 });
  const { cuda = "", nccl } = libraries;
  return new OpenGpu(
    await gpuCall("opening the GPU", wait, (native) => nativeGpu().openGpu({ cuda, nccl, index, ...native })),
  );
}

class OpenGpu implements Gpu {
  readonly name: string;
  readonly #gpu: NativeGpu;

  constructor(gpu: NativeGpu) {
    this.#gpu = gpu;
    this.name = gpu.name;
  }

  async allocate(bytes: number, wait: GpuWait): Promise<GpuBuffer> {
    checkWhole("bytes", bytes, { min: 1, max: 2 ** 46 });
    const memory = await gpuCall("allocating device memory", wait, (native) =>
      this.#gpu.allocate({ bytes, ...native }),
    );
    return new OpenBuffer(memory, { writable: true });
  }

  openShelf(options: GpuShelfOptions): Promise<GpuShelf> {
    return openShelf(this.#gpu, options);
  }

  takeVersion(options: TakeVersionOptions, wait: GpuWait): Promise<GpuBuffer> {
    return takeVersion(this.#gpu, options, wait);
  }

  newId(wait: GpuWait): Promise<Uint8Array> {
    return gpuCall("making an id", wait, (native) => this.#gpu.newId(native));
  }

  async openCommunicator(options: CommunicatorOptions, wait: GpuWait): Promise<GpuCommunicator> {
    const { id, ranks, rank, keepForShrink = false } = options;
    checkWhole("ranks", ranks, { min: 1, max: 65_536 });
    checkWhole("rank", rank, { min: 0, max: ranks - 1 });
    if (id.byteLength !== idBytes)
      throw errors.NativeOptionInvalid({
        field: "id",
        value: `${id.byteLength} bytes long`,
        fix: "give what newId returned",
      });
    const opened = await gpuCall("forming the communicator", wait, (native) =>
      this.#gpu.openCommunicator({ id, ranks, rank, keepForShrink, ...native }),
    );
    return new OpenCommunicator(opened);
  }
}
