/** Versions in device memory for other processes of the host: the twin of the version store on one GPU. */

import { checkKey, checkName, checkWhole } from "../check.ts";
import { hexOf } from "../digest.ts";
import { errorOf } from "../errors.ts";
import type { VersionId } from "../mapped-version.ts";
import type { NativeGpu, NativeGpuShelf, NativeShelvedId } from "../native-gpu.ts";
import { checkVersionId, versionText } from "../version-store.ts";
import { type GpuBuffer, OpenBuffer } from "./buffer.ts";
import { operandOf, protectBuffer } from "./buffers.ts";
import { type GpuWait, gpuCall } from "./wait.ts";

/** Who offers versions, and where. */
export interface GpuShelfOptions {
  /** Secret of the job, at least 16 bytes; readers prove that they know it, and so does the shelf. */
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  /** Existing folder for the Unix socket; its path takes at most 83 bytes. */
  readonly socketDir: string;
  /** Versions kept at a time, 1 … 16; default 2. */
  readonly slots?: number;
}

/** A version in device memory. */
export interface ShelvedVersion {
  readonly id: VersionId;
  /** The digest of its bytes, as `digestOf` gives it. What is on a GPU is not digested: the maker's word is what readers compare. */
  readonly digest: string;
}

/** Which version to take, and from whom. */
export interface TakeVersionOptions extends ShelvedVersion {
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  /** Address of the shelf. */
  readonly holder: string;
}

/** The versions in device memory that this process offers to others. Does not keep the process alive. */
export interface GpuShelf {
  readonly address: string;
  /**
   * Offers a buffer as a version, in the place of the oldest one, whose readers keep it. The buffer is not written any more from now on.
   * Offering the same again does nothing.
   *
   * @throws MUSTER_ERR_VERSION_CONFLICT for another buffer or digest under an id that is here, MUSTER_ERR_VERSION_STORE_CLOSED,
   *   MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_GPU_TIMEOUT, MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_GPU_FAILED
   */
  put(version: ShelvedVersion, buffer: GpuBuffer, wait: GpuWait): Promise<void>;
  /** Stops serving; readers keep what they have. Harmless twice. */
  close(): Promise<void>;
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_NATIVE_FAILED */
export async function openShelf(gpu: NativeGpu, options: GpuShelfOptions): Promise<GpuShelf> {
  const { key, job, member, socketDir, slots = 2 } = options;
  checkMember(options);
  checkWhole("slots", slots, { min: 1, max: 16 });
  const opened = await gpu.openShelf({ key, job, member, socketDir, slots });
  if (!opened.ok) throw errorOf("shelf", opened, {});
  return new OpenShelf(opened.value);
}

/** See `Gpu.takeVersion`. */
export async function takeVersion(gpu: NativeGpu, options: TakeVersionOptions, wait: GpuWait): Promise<GpuBuffer> {
  const { key, job, member, holder } = options;
  checkMember(options);
  const name = { kind: "take", what: "taking a version", id: versionText(options.id) } as const;
  const wanted = { key, job, member, holder, ...nativeIdOf(options) };
  const memory = await gpuCall(name, wait, (native) => gpu.takeVersion({ ...wanted, ...native }));
  return new OpenBuffer(memory, { writable: false });
}

class OpenShelf implements GpuShelf {
  readonly address: string;
  readonly #shelf: NativeGpuShelf;

  constructor(shelf: NativeGpuShelf) {
    this.#shelf = shelf;
    this.address = shelf.address;
  }

  async put(version: ShelvedVersion, buffer: GpuBuffer, wait: GpuWait): Promise<void> {
    const { bytes } = buffer;
    const { memory } = operandOf("buffer", buffer, 0, bytes);
    const named = nativeIdOf(version);
    protectBuffer(buffer); // also when it fails: whether a reader has it is not known then
    const name = { kind: "shelf", what: "offering a version", id: versionText(version.id) } as const;
    await gpuCall(name, wait, (native) => this.#shelf.put({ ...named, memory, bytes, ...native }));
  }

  async close(): Promise<void> {
    await this.#shelf.close();
  }
}

function checkMember({ key, job, member }: { key: Uint8Array; job: string; member: string }): void {
  checkKey(key);
  checkName("job", job);
  checkName("member", member);
}

function nativeIdOf({ id, digest }: ShelvedVersion): NativeShelvedId {
  checkVersionId(id);
  return { lineage: id.lineage, version: id.version, digest: hexOf(digest) };
}
