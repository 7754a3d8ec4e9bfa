/** One GPU: its memory, and communicators on it. */
import { checkWhole } from "../check.ts";
import { errors } from "../errors.ts";
import { type NativeGpu, type NativeGpuMemory, nativeGpu } from "../native-gpu.ts";
import { operandOf, rememberBuffer } from "./buffers.ts";
import { type GpuCommunicator, OpenCommunicator } from "./communicator.ts";
import type { GpuLibraries } from "./libraries.ts";
import { type GpuWait, gpuCall } from "./wait.ts";

export type { GpuWait } from "./wait.ts";

/** Bytes of an id of a communicator. */
const idBytes = 128;

/** Memory of a GPU. Closed, or forgotten, it is given back once nothing uses it. */
export interface GpuBuffer {
  readonly bytes: number;
  /** Copies `source` to `offset`. @throws MUSTER_ERR_GPU_TIMEOUT, MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_GPU_FAILED */
  write(source: Uint8Array, offset: number, wait: GpuWait): Promise<void>;
  /** Copies from `offset` to `target`, which is written only when all bytes are there. Throws as `write`. */
  read(target: Uint8Array, offset: number, wait: GpuWait): Promise<void>;
  /** Lets go of it. Harmless twice. */
  close(): void;
}

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
    return new OpenBuffer(
      await gpuCall("allocating device memory", wait, (native) => this.#gpu.allocate({ bytes, ...native })),
    );
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

class OpenBuffer implements GpuBuffer {
  readonly bytes: number;
  readonly #memory: NativeGpuMemory;

  constructor(memory: NativeGpuMemory) {
    this.#memory = memory;
    this.bytes = memory.bytes;
    rememberBuffer(this, memory);
  }

  async write(source: Uint8Array, offset: number, wait: GpuWait): Promise<void> {
    const { offset: at } = operandOf("source", this, offset, source.byteLength);
    await gpuCall("writing device memory", wait, (native) =>
      this.#memory.write({ bytes: source, offset: at, ...native }),
    );
  }

  async read(target: Uint8Array, offset: number, wait: GpuWait): Promise<void> {
    const { offset: at } = operandOf("target", this, offset, target.byteLength);
    await gpuCall("reading device memory", wait, (native) =>
      this.#memory.read({ bytes: target, offset: at, ...native }),
    );
  }

  close(): void {
    rememberBuffer(this, { memory: {}, bytes: 0 });
    this.#memory.close();
  }
}
