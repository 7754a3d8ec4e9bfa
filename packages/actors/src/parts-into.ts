/** What of a section is read into each piece of the memory for it. */
import { rowsWithin, type SectionBytes, type StridedRows } from "@muster/base";
import type { ChooseParts } from "@muster/checkpoint";
import { piecesWithPlaces } from "@muster/engine";

type WantedPart = ReturnType<ChooseParts>[number];

/** Rows of a section of a checkpoint, for memory in one array or in pieces. Pure. */
export function partsInto(
  section: WantedPart["section"],
  rows: readonly StridedRows[],
  room: SectionBytes,
): readonly WantedPart[] {
  return piecesWithPlaces(room).map(({ piece: into, from }) => ({
    section,
    rows: [...rowsWithin(rows, { from, bytes: into.byteLength })],
    into,
  }));
}
