/**
 * Receipts in fewer reports: what is stored of a lease is told together with its last chunk, while that one is generated. Nobody waits for it: the lease is
 * not over before, and there is nothing else for its holder to begin. What is stored and not told is sampled again when its holder dies, so it waits no
 * longer than {@link keptMsMax}.
 */
import { report } from "../replica-events.ts";
import type { KeptReceipts, RolloutContext, RolloutEffect, RolloutEvent } from "./rollout-events.ts";

/** How long a receipt waits for others, at most. */
export const keptMsMax = 500;

/** Most receipts in one report. */
const receiptsMax = 1_024;

type Stored = Extract<RolloutEvent, { readonly type: "groups.stored" }>;

/** What is told when groups are stored, and what is kept for later: the receipts of one message at most. Pure. */
export function tellStored(
  context: Pick<RolloutContext, "kept" | "current" | "queue" | "isLeaving">,
  { type: _, chunkId, ...body }: Stored,
): { readonly tell: readonly KeptReceipts[]; readonly kept: KeptReceipts | null } {
  const { kept } = context;
  const isOfSame =
    kept?.body.leaseId === body.leaseId && kept.body.receipts.length + body.receipts.length <= receiptsMax;
  const all = kept && isOfSame ? joined(kept, { chunkIds: [chunkId], body }) : { chunkIds: [chunkId], body };
  const before = kept && !isOfSame ? [kept] : [];
  const isKept = !isOfSame && mayKeep(context, chunkId, body);
  return isKept ? { tell: before, kept: all } : { tell: [...before, all], kept: null };
}

/** The report of receipts. Pure. */
export function reportOf({ chunkIds, body }: KeptReceipts): RolloutEffect {
  return report("groups.completed", body, chunkIds.join(" "));
}

/** The ids in what is heard when a report is told. Pure. */
export function toldIdsOf(id: string): readonly string[] {
  return id.split(" ");
}

/** Errors are told at once: somebody may have to look at them. */
function mayKeep(
  { current, queue, isLeaving }: Pick<RolloutContext, "current" | "queue" | "isLeaving">,
  chunkId: string,
  { leaseId, causes }: KeptReceipts["body"],
): boolean {
  return (
    current?.leaseId === leaseId && current.id !== chunkId && queue.length === 0 && !isLeaving && causes.length === 0
  );
}

function joined(first: KeptReceipts, second: KeptReceipts): KeptReceipts {
  const { body } = second;
  return {
    chunkIds: [...first.chunkIds, ...second.chunkIds],
    body: {
      ...body,
      receipts: [...first.body.receipts, ...body.receipts],
      durationMs: first.body.durationMs + body.durationMs,
    },
  };
}
