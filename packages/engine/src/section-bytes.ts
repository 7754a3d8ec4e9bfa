/** Sections that may be larger than an array of JavaScript. */
import type { SectionBytes } from "@muster/base";

/** Most bytes of a piece of a section: 1 GiB. */
export const sectionPieceMax: number = 2 ** 30;

function piecesIn(section: SectionBytes): readonly Uint8Array[] {
  return section instanceof Uint8Array ? [section] : section;
}

/** Size of a section. Pure. */
export function bytesIn(section: SectionBytes): number {
  return piecesIn(section).reduce((sum, piece) => sum + piece.byteLength, 0);
}

/** Copies bytes of a section, from one on, as many as `into` has. */
export function copyBytes(section: SectionBytes, into: Uint8Array, from = 0): void {
  const end = from + into.byteLength;
  for (const { piece, from: at } of piecesWithPlaces(section)) {
    const [first, last] = [Math.max(from, at), Math.min(end, at + piece.byteLength)];
    if (first < last) into.set(piece.subarray(first - at, last - at), first - from);
  }
}

/** A copy of a section in one array: for those that fit into one. Pure. */
export function copyOf(section: SectionBytes): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytesIn(section));
  copyBytes(section, copy);
  return copy;
}

/** Memory for a section: one array, or pieces of `pieceMax` bytes, a multiple of 256 KiB, where it has more. */
export function roomFor(bytes: number, pieceMax: number = sectionPieceMax): SectionBytes {
  if (bytes <= pieceMax) return new Uint8Array(bytes);
  const count = Math.ceil(bytes / pieceMax);
  return Array.from({ length: count }, (_, i) => new Uint8Array(Math.min(pieceMax, bytes - i * pieceMax)));
}

/** The pieces of a section, and the number of the first byte of each. Pure. */
export function piecesWithPlaces(
  section: SectionBytes,
): readonly { readonly piece: Uint8Array; readonly from: number }[] {
  let end = 0;
  return piecesIn(section).map((piece) => {
    const from = end;
    end += piece.byteLength;
    return { piece, from };
  });
}
