/**
 * Receipts are believed only as far as they can be true: what they say of a group is checked when they come, and what they point to when
 * trainers read it. A group whose result is of no use is sampled again, and the operator hears who gave it.
 */
import { rewardMax } from "@muster/base";
import type { BatchPart, Body, GroupReceipt, WorkItem } from "@muster/protocol";
import { announce, type Change, type ReportOf } from "../events.ts";
import { evictMember } from "../members/apply-membership.ts";
import { groupsIn } from "../sizes.ts";
import type { ControllerState, KeptReceipt } from "../state.ts";
import { withMember } from "../state.ts";
import { finishItems, requeue, withGroups } from "./leases.ts";

/** Leases with receipts that could not be true after which their sender is evicted: a new life of it may count right. */
const refusedMax = 3;

/** Groups that an alarm names. */
const namedMax = 8;

/** Why a receipt can not be true; `null` when it may be. Pure. */
export function refusalOf(state: ControllerState, receipt: GroupReceipt): string | null {
  const { plan } = state;
  const size = groupsIn(state, receipt.step);
  const { index, streamSeq, firstSeq = streamSeq, completed, aborted, rewardSum, tokens } = receipt;
  if (index >= size) return `step ${receipt.step} has ${size} groups`;
  if (completed + aborted !== plan.groupSize)
    return `completed = ${completed} and aborted = ${aborted} are not the ${plan.groupSize} trajectories of a group`;
  if (streamSeq < 1) return `streamSeq = ${streamSeq} is no place in the groups stream`;
  if (firstSeq < 1 || firstSeq > streamSeq) return `firstSeq = ${firstSeq} is not before streamSeq = ${streamSeq}`;
  if (!(Math.abs(rewardSum) <= completed * rewardMax))
    return `rewardSum = ${rewardSum} of ${completed} trajectories; a reward is at most ${rewardMax}`;
  if (tokens > plan.groupSize * (plan.maxContext ?? tokens))
    return `tokens = ${tokens}; ${plan.groupSize} trajectories have at most ${plan.maxContext} each`;
  return null;
}

/**
 * Takes the receipts that can not be true out of a report. What their sender held of them goes back to the queue without blame; a lease that
 * somebody else holds counts for nothing. That counts against the sender once per lease: a report comes again when its controller died before it
 * was acknowledged. Pure.
 */
export function refuseReceipts(
  state: ControllerState,
  event: ReportOf<"groups.completed">,
): Change<ControllerState> & { readonly sound: Body<"groups.completed">["receipts"] } {
  const { leaseId, receipts } = event.body;
  const lease = state.leases[leaseId];
  const isOthers = lease !== undefined && lease.holder !== event.from;
  const reasons = receipts.flatMap((receipt) => {
    const reason = isOthers ? `lease ${leaseId} is of ${lease.holder}` : refusalOf(state, receipt);
    return reason === null ? [] : { receipt, reason };
  });
  const [first] = reasons;
  if (!first) return { state, effects: [], sound: receipts };
  const refused = new Set(reasons.map(({ receipt }) => receipt));
  const isOf = (item: WorkItem): boolean =>
    item.purpose === "train" && [...refused].some(({ step, index }) => step === item.step && index === item.index);
  const items = isOthers ? [] : (lease?.items.filter(isOf) ?? []);
  const { dropped } = state;
  const counted = { ...state, dropped: { ...dropped, refused: (dropped.refused ?? 0) + refused.size } };
  const freed = isOthers ? counted : finishItems(counted, leaseId, isOf);
  const queued = requeue(freed, items, { holder: "", reason: "its receipt can not be true", failure: null });
  const sound = receipts.filter((one) => !refused.has(one));
  const { from } = event;
  const known = state.members[from]?.refusedLeases ?? [];
  if (known.includes(leaseId)) return { ...queued, sound };
  const noted = withMember(queued.state, from, { refusedLeases: [...known, leaseId] });
  const { receipt, reason } = first;
  const others = refused.size > 1 ? `, and ${refused.size - 1} more` : "";
  const detail = `${from} reports group ${receipt.step}.${receipt.index} in message ${receipt.streamSeq}: ${reason}${others}`;
  const blamed = blame(noted, from, detail);
  return {
    state: blamed.state,
    effects: [announce("alarm.raised", { alarm: "receipt", detail }), ...queued.effects, ...blamed.effects],
    sound,
  };
}

/**
 * True when a sampler has a group on a lease of its own, or had: then the first result counts, whoever it is from, so that samplers that are all
 * slow come to an end. Any other result of an open group was never asked for. Pure.
 */
export function wasLeased(state: ControllerState, { leaseId, from }: Leased, receipt: GroupReceipt): boolean {
  const { step, index } = receipt;
  const isIt = (item: WorkItem): boolean => item.purpose === "train" && item.step === step && item.index === index;
  const lease = state.leases[leaseId];
  if (lease?.holder === from && lease.items.some(isIt)) return true;
  return state.groups[step]?.former?.[index]?.includes(from) ?? false;
}

interface Leased {
  readonly leaseId: string;
  readonly from: string;
}

/** Counts results that were never asked for; the operator hears of the first, the second, the fourth and so on. Pure. */
export function noteUnasked(
  state: ControllerState,
  from: string,
  receipts: readonly GroupReceipt[],
): Change<ControllerState> {
  const [first] = receipts;
  if (!first) return { state, effects: [] };
  const { dropped } = state;
  const before = dropped.unasked ?? 0;
  const unasked = before + receipts.length;
  const isTold = Math.floor(Math.log2(unasked)) > Math.floor(Math.log2(before));
  const detail = `${from} reports group ${first.step}.${first.index}, which it has on no lease; ${unasked} such results so far`;
  return {
    state: { ...state, dropped: { ...dropped, unasked } },
    effects: isTold ? [announce("alarm.raised", { alarm: "receipt", detail })] : [],
  };
}

/** The sender gets new work after a pause, so that somebody else takes what it gave back. */
function blame(state: ControllerState, id: string, evidence: string): Change<ControllerState> {
  const member = state.members[id];
  if (!member) return { state, effects: [] };
  const refused = (member.refused ?? 0) + 1;
  if (refused >= refusedMax) return evictMember(state, member, { evidence, by: "engine", silentMs: 0 });
  const retryAtMs = state.nowMs + state.plan.timing.commandMs / 5;
  return { state: withMember(state, id, { refused, retryAtMs }), effects: [] };
}

/**
 * Drops the receipts of groups that trainers could not read: they are sampled again. Each time that counts against who wrote them, so that a replica
 * which writes nothing that can be read is evicted. Pure.
 */
export function sampleUnreadable(
  state: ControllerState,
  parts: readonly BatchPart[],
  cause: string,
): Change<ControllerState> {
  const { step } = state.step;
  const groups = state.groups[step];
  const named = new Set(parts.flatMap(({ streamSeq, groupIds }) => groupIds.map((id) => `${streamSeq}/${id}`)));
  const isBad = ({ streamSeq, index }: KeptReceipt): boolean => named.has(`${streamSeq}/${step}.${index}`);
  const bad = Object.values(groups?.receipts ?? {}).filter(isBad);
  if (!groups || bad.length === 0) return { state, effects: [] };
  const receipts = Object.fromEntries(Object.entries(groups.receipts).filter(([, receipt]) => !isBad(receipt)));
  const { dropped } = state;
  const counted = { ...state, dropped: { ...dropped, unreadable: (dropped.unreadable ?? 0) + bad.length } };
  const items = bad.map(({ index, attempt }) => ({ purpose: "train" as const, step, index, attempt }));
  const why = { holder: "", reason: "it can not be read", failure: null };
  const queued = requeue(withGroups(counted, step, { ...groups, receipts }), items, why);
  const names = bad
    .slice(0, namedMax)
    .map(({ index, streamSeq, by = "somebody" }) => `${step}.${index} of ${by} in message ${streamSeq}`);
  const more = bad.length > namedMax ? ` and ${bad.length - namedMax} more` : "";
  const detail = `can not be read and sampled again: ${names.join(", ")}${more}: ${cause}`;
  const writers = [...new Set(bad.flatMap(({ by }) => by ?? []))];
  return writers.reduce<Change<ControllerState>>(
    (change, by) => {
      const blamed = blame(change.state, by, `what it stored can not be read: ${cause}`);
      return { state: blamed.state, effects: [...change.effects, ...blamed.effects] };
    },
    {
      state: queued.state,
      effects: [announce("alarm.raised", { alarm: "unreadable", detail }), ...queued.effects],
    },
  );
}
