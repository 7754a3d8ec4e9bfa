/** What of the groups stream the tables still point to. */
import { firstSeqOf, type PartialGroup, type StreamPlace } from "@muster/protocol";
import type { ControllerState } from "../state.ts";

/** The lowest sequence of the groups stream that something still points to. Pure. */
export function lowestOpenSeq(state: ControllerState): number {
  const open = Object.values(state.groups).flatMap((groups) => Object.values(groups.receipts));
  const again = Object.values(state.history).flat();
  const places: readonly StreamPlace[] = [...open, ...again, ...begunIn(state)];
  return places.reduce((min, place) => Math.min(min, firstSeqOf(place)), Number.MAX_SAFE_INTEGER);
}

/** What is saved of unfinished groups, whoever has them. Pure. */
export function begunIn(state: ControllerState): readonly PartialGroup[] {
  const queued = Object.values(state.groups).flatMap(({ queue }) => queue);
  const leased = Object.values(state.leases).flatMap(({ items }) => items);
  return [...queued, ...leased].flatMap((item) => ("partial" in item && item.partial) || []);
}
