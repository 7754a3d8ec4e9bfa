/** A few of the numbers of a version, by which one can tell that two versions differ in the precision in which servers hold them. */
import type { PlacedTensor } from "@muster/tensors";

/** Most numbers of a sample, about: 128 KiB. */
const sampleLength = 65_536;
/** So many have to differ before two versions count as different: a server that quantizes may have the same weights for a few. */
const differMin = 16;

/** Takes a sample of a section that comes in windows. Numbers that are neither f32 nor bf16 do not count. */
export class WeightSample {
  readonly #tensors: readonly PlacedTensor[];
  readonly #stride: number;
  readonly #values: number[] = [];

  constructor(tensors: readonly PlacedTensor[]) {
    this.#tensors = tensors.filter(({ dtype }) => dtype === "f32" || dtype === "bf16");
    const elements = this.#tensors.reduce((sum, { dtype, sizeBytes }) => sum + sizeBytes / sizeOf(dtype), 0);
    this.#stride = Math.max(1, Math.ceil(elements / sampleLength));
  }

  /** @param from - Place of the window in the section, in bytes. A number that two windows share is left out. */
  add(window: Uint8Array, from: number): void {
    const view = new DataView(window.buffer, window.byteOffset, window.byteLength);
    for (const { dtype, offsetBytes, sizeBytes } of this.#tensors) {
      const step = this.#stride * sizeOf(dtype);
      const first = offsetBytes + Math.max(0, Math.ceil((from - offsetBytes) / step)) * step;
      const end = Math.min(offsetBytes + sizeBytes, from + window.length) - sizeOf(dtype);
      for (let at = first; at <= end; at += step)
        this.#values.push(dtype === "bf16" ? view.getUint16(at - from, true) : toBf16(view.getUint32(at - from, true)));
    }
  }

  /** Sample in bf16, ≤ 65,536 numbers and one of each tensor. */
  values(): Uint16Array {
    return Uint16Array.from(this.#values);
  }
}

/** True when two samples show that their versions differ; false where they do not, or nobody knows. Pure. */
export function differ(a: Uint16Array | null, b: Uint16Array | null): boolean {
  if (a?.length !== b?.length || !a || !b) return false;
  let count = 0;
  for (let at = 0; at < a.length && count < differMin; at++) if (a[at] !== b[at]) count += 1;
  return count >= differMin;
}

const sizeOf = (dtype: string): number => (dtype === "f32" ? 4 : 2);

/** Bits of an f32, rounded to nearest, ties to even, as servers cast. */
const toBf16 = (bits: number): number => ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
