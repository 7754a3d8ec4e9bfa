/** What a plan says, pulled into memory in one array or in pieces. */
import { type Clock, rowsWithin, type SectionBytes } from "@muster/base";
import type { RankPlan, ShardSource } from "@muster/collectives";
import { piecesWithPlaces } from "@muster/engine";
import type { Ports } from "../ports.ts";
import { type Puller, pullOf } from "../weights.ts";

/** Who pulls. */
export type PiecesPuller = Puller & Pick<Ports, "pullShards"> & { readonly clock: Clock };

/** What, from whom, where to, and until when. */
export interface PiecesOptions {
  readonly id: Parameters<Ports["pullShards"]>[0]["id"];
  readonly plan: RankPlan;
  readonly sources: readonly ShardSource[];
  /** Of `plan.sectionBytes` in all. */
  readonly room: SectionBytes;
  /** Time of the clock. */
  readonly endMs: number;
  readonly signal: AbortSignal;
}

/**
 * Pulls one piece after the other: what a piece needs on its way over a network is given back before the next one. Where pieces begin in the middle of a
 * block of 256 KiB, that block crosses for both.
 *
 * @throws the errors of `pullShards`; the memory is of no use then.
 */
export async function pullPieces(
  puller: PiecesPuller,
  { id, plan, sources, room, endMs, signal }: PiecesOptions,
): Promise<{ readonly bytes: number; readonly wireBytes: number }> {
  const { key, job, member } = pullOf(puller, { ...id, sections: [], holders: [] });
  let [bytes, wireBytes] = [0, 0];
  for (const { piece: into, from } of piecesWithPlaces(room)) {
    const deadlineMs = Math.max(1, endMs - puller.clock.now());
    const part = planWithin(plan, { from, bytes: into.byteLength });
    const pulled = await puller.pullShards({ key, job, member, id, plan: part, sources, into, deadlineMs, signal });
    bytes += pulled.bytes;
    wireBytes += pulled.wireBytes;
  }
  return { bytes, wireBytes };
}

/** What of a plan goes to some bytes of its target. Pure. */
function planWithin(plan: RankPlan, window: { readonly from: number; readonly bytes: number }): RankPlan {
  const { rank, sectionBytes, slices } = plan;
  if (window.from === 0 && window.bytes === sectionBytes) return plan;
  return { rank, sectionBytes: window.bytes, slices: [...rowsWithin(slices, window)] };
}
