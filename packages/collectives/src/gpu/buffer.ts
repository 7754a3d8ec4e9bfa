/** Memory of a GPU. */
import { checkWhole } from "../check.ts";
import { errors } from "../errors.ts";
import type { MappedVersion } from "../mapped-version.ts";
import type { NativeGpuMemory } from "../native-gpu.ts";
import { nativeMappedOf } from "../open-stores.ts";
import { operandOf, rememberBuffer, targetOf } from "./buffers.ts";
import { type GpuStreamWait, gpuCall, streamOf } from "./wait.ts";

/** Bytes of a section of a mapped version. */
export interface MappedBytes {
  readonly version: MappedVersion;
  readonly section: string;
  readonly from: number;
  readonly bytes: number;
}

/** Memory of a GPU. Closed, or forgotten, it is given back once nothing uses it. */
export interface GpuBuffer {
  readonly bytes: number;
  /**
   * Copies `source` to `offset`.
   *
   * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a version on a shelf; MUSTER_ERR_GPU_TIMEOUT, MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_GPU_FAILED
   */
  write(source: Uint8Array, offset: number, wait: GpuStreamWait): Promise<void>;
  /**
   * Copies bytes of a mapped version to `offset` from where they lie, without a buffer in between: the driver locks their pages, 64 MiB at a time, where it
   * can. The version may be released at once; its memory stays until the device has read it. Throws as `write`.
   */
  writeFrom(source: MappedBytes, offset: number, wait: GpuStreamWait): Promise<void>;
  /** Copies from `offset` to `target`, which is written only when all bytes are there. Throws as `write`. */
  read(target: Uint8Array, offset: number, wait: GpuStreamWait): Promise<void>;
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

  async write(source: Uint8Array, offset: number, wait: GpuStreamWait): Promise<void> {
    const { offset: at } = targetOf("source", this, offset, source.byteLength);
    await gpuCall("writing device memory", wait, (native) =>
      this.#memory.write({ bytes: source, offset: at, stream: streamOf(wait), ...native }),
    );
  }

  async writeFrom({ version, section, from, bytes }: MappedBytes, offset: number, wait: GpuStreamWait): Promise<void> {
    const { handle: mapped, sections } = nativeMappedOf(version);
    const index = sections.findIndex(({ name }) => name === section);
    const fix = "name a section that was asked for";
    if (index < 0) throw errors.NativeOptionInvalid({ field: "source.section", value: section, fix });
    const all = sections[index]?.bytes ?? 0;
    checkWhole("source.bytes", bytes, { min: 0, max: all });
    checkWhole("source.from", from, { min: 0, max: all - bytes });
    const { offset: at } = targetOf("source", this, offset, bytes);
    await gpuCall("writing device memory", wait, (native) =>
      this.#memory.writeFrom({ mapped, section: index, from, bytes, offset: at, stream: streamOf(wait), ...native }),
    );
  }

  async read(target: Uint8Array, offset: number, wait: GpuStreamWait): Promise<void> {
    const { offset: at } = operandOf("target", this, offset, target.byteLength);
    await gpuCall("reading device memory", wait, (native) =>
      this.#memory.read({ bytes: target, offset: at, stream: streamOf(wait), ...native }),
    );
  }

  close(): void {
    rememberBuffer(this, { memory: {}, bytes: 0, writable: false });
    this.#memory.close();
  }
}
