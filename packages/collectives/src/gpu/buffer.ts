/** Memory of a GPU. */
import type { NativeGpuMemory } from "../native-gpu.ts";
import { operandOf, rememberBuffer, targetOf } from "./buffers.ts";
import { type GpuWait, gpuCall } from "./wait.ts";

/** Memory of a GPU. Closed, or forgotten, it is given back once nothing uses it. */
export interface GpuBuffer {
  readonly bytes: number;
  /**
   * Copies `source` to `offset`.
   *
   * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a version on a shelf; MUSTER_ERR_GPU_TIMEOUT, MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_GPU_FAILED
   */
  write(source: Uint8Array, offset: number, wait: GpuWait): Promise<void>;
  /** Copies from `offset` to `target`, which is written only when all bytes are there. Throws as `write`. */
  read(target: Uint8Array, offset: number, wait: GpuWait): Promise<void>;
  /** Lets go of it. Harmless twice. */
  close(): void;
}

/** A buffer over its native side. */
export class OpenBuffer implements GpuBuffer {
  readonly bytes: number;
  readonly #memory: NativeGpuMemory;

  constructor(memory: NativeGpuMemory, { writable }: { readonly writable: boolean }) {
    this.#memory = memory;
    this.bytes = memory.bytes;
    rememberBuffer(this, { memory: memory.memory, bytes: memory.bytes, writable });
  }

  async write(source: Uint8Array, offset: number, wait: GpuWait): Promise<void> {
    const { offset: at } = targetOf("source", this, offset, source.byteLength);
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
    rememberBuffer(this, { memory: {}, bytes: 0, writable: false });
    this.#memory.close();
  }
}
