/** Memory that is larger than a view of JavaScript may be, seen through windows. */
import { checkWhole } from "./check.ts";

/** Views over 4 GiB crash Node 20. */
export const viewBytesMax: number = 2 ** 32 - 4;

/**
 * Views of one piece of memory. Memory of up to `viewBytes` is one region. Larger memory is regions that begin half of `viewBytes` apart and overlap, so
 * that each window of up to half of `viewBytes` lies in one of them, and there are few of them, however many windows are asked for.
 */
export class Windows {
  readonly #make: (from: number, bytes: number) => ArrayBuffer;
  readonly #capacityBytes: number;
  readonly #viewBytes: number;
  readonly #stepBytes: number;
  readonly #regions = new Map<number, ArrayBuffer>();

  /**
   * @param make - Makes a view of some bytes of the memory; called once for each region.
   * @param viewBytes - Most bytes of a view; a multiple of 4.
   */
  constructor(make: (from: number, bytes: number) => ArrayBuffer, capacityBytes: number, viewBytes: number) {
    this.#make = make;
    this.#capacityBytes = capacityBytes;
    this.#viewBytes = viewBytes;
    this.#stepBytes = Math.floor(viewBytes / 16) * 8;
  }

  /** Most bytes of a window. */
  get windowBytesMax(): number {
    return this.#capacityBytes <= this.#viewBytes ? this.#capacityBytes : this.#stepBytes;
  }

  /** Bytes `[from, from + bytes)`. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for what is not there, or too large. */
  at(from: number, bytes: number): Uint8Array {
    this.check(from, bytes);
    const index = this.#capacityBytes <= this.#viewBytes ? 0 : Math.floor(from / this.#stepBytes);
    const begin = index * this.#stepBytes;
    const region =
      this.#regions.get(index) ?? this.#make(begin, Math.min(this.#viewBytes, this.#capacityBytes - begin));
    this.#regions.set(index, region);
    return new Uint8Array(region, from - begin, bytes);
  }

  /** @throws MUSTER_ERR_NATIVE_OPTION_INVALID as {@link at} does. */
  check(from: number, bytes: number): void {
    checkWhole("window.from (bytes)", from, { min: 0, max: this.#capacityBytes });
    checkWhole("window (bytes)", bytes, { min: 0, max: Math.min(this.windowBytesMax, this.#capacityBytes - from) });
  }
}
