/** A few numbers of weights by which distances are told: those of two sketches are about as far apart as the weights are. */
import type { SectionBytes } from "@muster/base";
import { sketchLength } from "@muster/protocol";
import { castFloats, isFloatDType, type PlacedTensor } from "@muster/tensors";
import { copyBytes } from "./section-bytes.ts";

/** Elements that are cast at a time. */
const pieceElements = 65_536;

/**
 * Sums of all weights, in each of which every weight has a sign of its own that follows from its place. The mean square of what two sketches differ by is that of the weights'
 * distance (Johnson and Lindenstrauss; Achlioptas 2003). Tensors that hold no floating-point numbers do not count. Pure.
 */
export function sketchOf(weights: SectionBytes, tensors: readonly PlacedTensor[]): number[] {
  const sums = new Float64Array(sketchLength);
  let place = 0;
  for (const { dtype, offsetBytes, sizeBytes, shape } of tensors) {
    const elements = shape.reduce((product, size) => product * size, 1);
    if (isFloatDType(dtype)) {
      const size = sizeBytes / elements;
      for (let at = 0; at < elements; at += pieceElements) {
        const count = Math.min(pieceElements, elements - at);
        const floats = new Float32Array(count);
        const bytes = bytesOf(weights, offsetBytes + size * at, size * count);
        castFloats({ dtype, bytes }, { dtype: "f32", bytes: new Uint8Array(floats.buffer) });
        addPiece(sums, floats, place + at);
      }
    }
    place += elements;
  }
  return [...sums];
}

/** Some bytes of a section: a view, where they are in one array. */
function bytesOf(section: SectionBytes, from: number, length: number): Uint8Array {
  if (section instanceof Uint8Array) return section.subarray(from, from + length);
  const bytes = new Uint8Array(length);
  copyBytes(section, bytes, from);
  return bytes;
}

function addPiece(sums: Float64Array, floats: Float32Array, place: number): void {
  for (let i = 0; i < floats.length; i++) {
    const weight = floats[i] as number;
    const signs = mixed(place + i);
    for (let k = 0; k < sums.length; k++) sums[k] = (sums[k] as number) + ((signs >>> k) & 1 ? weight : -weight);
  }
}

/** 32 bits of a place, each as good as a coin. */
function mixed(place: number): number {
  let x = Math.imul((place ^ (place / 2 ** 32)) + 0x9e3779b9, 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
}
