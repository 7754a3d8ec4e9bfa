/** Memory that is shared with a program: whoever has its file descriptor maps it, and nobody can cut it while it is copied. */
import { checkName, checkWhole } from "./check.ts";
import { errors } from "./errors.ts";
import { type NativeRegion, native } from "./native.ts";

/** Shared memory of a fixed size, sealed. Of what others write there while it is copied, the copy has some, all or nothing. */
export interface SharedRegion {
  readonly bytes: number;
  /** Of this process, for others to open by `/proc`, until {@link hide}. */
  readonly fd: number;
  /** Copies bytes into it. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for what does not lie within it, and after `close` */
  write(from: Uint8Array, at: number): Promise<void>;
  /** Copies bytes out of it, as many as `into` has. @throws as `write` does */
  read(into: Uint8Array, at: number): Promise<void>;
  /** Closes the descriptor: those that mapped the memory keep it, and nobody else finds it. */
  hide(): void;
  /** Gives the memory back, after copies that are under way. Harmless twice. */
  close(): void;
}

/**
 * Shared memory of `bytes` bytes, 1 or more, all zero.
 *
 * @param name - What lists of open files show.
 * @throws MUSTER_ERR_NATIVE_FAILED, MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_OPTION_INVALID
 */
export function openSharedRegion(name: string, bytes: number): SharedRegion {
  checkName("name", name);
  checkWhole("bytes", bytes, { min: 1, max: Number.MAX_SAFE_INTEGER });
  const opened = native().openRegion({ name, bytes });
  if (!opened.ok) throw errors.NativeFailed({ reason: opened.message });
  return new Region(opened.value, bytes);
}

class Region implements SharedRegion {
  readonly bytes: number;
  readonly fd: number;
  #native: NativeRegion | null;

  constructor(region: NativeRegion, bytes: number) {
    this.#native = region;
    this.bytes = bytes;
    this.fd = region.fd;
  }

  async write(from: Uint8Array, at: number): Promise<void> {
    await this.#copy("write", from, at);
  }

  async read(into: Uint8Array, at: number): Promise<void> {
    await this.#copy("read", into, at);
  }

  hide(): void {
    this.#native?.hide();
  }

  close(): void {
    this.#native?.close();
    this.#native = null;
  }

  async #copy(way: "write" | "read", bytes: Uint8Array, at: number): Promise<void> {
    if (!this.#native) throw errors.NativeOptionInvalid({ field: "region", value: "closed", fix: "copy before that" });
    checkWhole("bytes", bytes.length, { min: 0, max: this.bytes });
    checkWhole("at", at, { min: 0, max: this.bytes - bytes.length });
    const copied = await this.#native[way]({ bytes, at });
    if (!copied.ok) throw errors.NativeFailed({ reason: copied.message });
  }
}
