/**
 * Room in a full groups stream where no checkpoint makes any. A stream is emptied from its beginning only, and messages may lie there that nobody needs and
 * no checkpoint covers: results whose receipts were lost, or of groups that somebody else finished. They go first, because that costs nothing.
 * So do saves of unfinished responses that lie in front of every result: without them only a holder's death costs more.
 * After the job went back further than the newest checkpoint the stream is full of results of later steps, or of what lies behind the first results of
 * the next one, and that step has no room. Then the oldest results are given up and sampled again: they cost time, and without them nothing would go on.
 */
import { firstSeqOf, type PartialGroup } from "@muster/protocol";
import { withoutEntry } from "../../table/table.ts";
import { announce, type Change } from "../events.ts";
import { groupsIn } from "../sizes.ts";
import type { ControllerState, KeptReceipt } from "../state.ts";
import { withLease } from "./lease-table.ts";
import { requeue, withGroups } from "./leases.ts";
import { isSettled, receiptsOf } from "./ledger.ts";
import { begunIn, lowestOpenSeq } from "./open-seq.ts";

/** As often results are given up for one step: a stream that has no room then is too small for it, and the watchdog ends the job. */
const timesMax = 8;

/** Makes room for results that have waited for a while: by what nobody needs, or by what is stored for later. Pure. */
export function planRoom(state: ControllerState): Change<ControllerState> | null {
  const { heldBack, nowMs, plan } = state;
  if (!heldBack || nowMs - heldBack.sinceMs < plan.timing.commandMs) return null;
  return emptyUnneeded(state) ?? forgetBegun(state) ?? giveUpOldest(state);
}

/**
 * Removes what lies in front of everything that the tables point to. What was stored long enough ago is reported by now; where its report is later
 * than that the group is sampled again. Pure.
 */
function emptyUnneeded(state: ControllerState): Change<ControllerState> | null {
  const { lastSeq, atMs = state.nowMs } = state.groupsFill ?? {};
  if (lastSeq === undefined || state.nowMs - atMs < state.plan.timing.commandMs) return null;
  const purgedSeq = Math.min(lastSeq + 1, lowestOpenSeq(state));
  if (purgedSeq <= firstKept(state)) return null;
  const detail = `what is stored before message ${purgedSeq} of the groups stream is needed by nobody and makes room`;
  return emptied(state, purgedSeq, detail);
}

/** Removes what is saved of unfinished responses in front of all results. Pure. */
function forgetBegun(state: ControllerState): Change<ControllerState> | null {
  if (!isStuck(state)) return null;
  const beforeSeq = lowestOpenSeq(withoutBegun(state, Number.MAX_SAFE_INTEGER));
  const saves = begunIn(state).filter(({ streamSeq }) => streamSeq < beforeSeq);
  const cut = saves.reduce((max, { streamSeq }) => Math.max(max, streamSeq), 0);
  if (cut < firstKept(state)) return null;
  const detail = `step ${state.step.step} has no room in the groups stream, and no checkpoint makes any: what is saved of ${saves.length} unfinished groups makes room; should their holders die they begin anew`;
  const next = withoutBegun(state, cut);
  return emptied(next, Math.min(cut + 1, lowestOpenSeq(next)), detail);
}

/** Gives up the older half of what is stored for later steps, or, where that is nothing, for the next one. */
function giveUpOldest(state: ControllerState): Change<ControllerState> | null {
  const { step, roomMade } = state;
  if (!isStuck(state)) return null;
  const times = roomMade?.step === step.step ? roomMade.times : 0;
  const stored = Object.values(state.groups).flatMap(receiptsOf);
  const later = stored.filter((receipt) => receipt.step > step.step);
  const cut = medianSeqOf(later.length > 0 ? later : stored);
  if (cut === null || times >= timesMax) return null;
  // What is in front of it goes with it.
  const given = stored.filter(({ streamSeq }) => streamSeq <= cut);
  const next = given.reduce(again, withoutBegun(state, cut));
  const purgedSeq = Math.min(cut + 1, lowestOpenSeq(next));
  if (purgedSeq <= firstKept(state)) return null;
  const detail = `step ${step.step} has no room in the groups stream, and no checkpoint makes any: ${given.length} stored results are given up and sampled again`;
  return emptied({ ...next, roomMade: { step: step.step, times: times + 1 } }, purgedSeq, detail);
}

/** The first message that may be there: they are numbered from 1. */
const firstKept = ({ purgedSeq }: ControllerState): number => Math.max(1, purgedSeq);

/** The stream is emptied so far, and whoever waits for room waits anew. */
function emptied(state: ControllerState, purgedSeq: number, detail: string): Change<ControllerState> {
  const { heldBack = null, nowMs } = state;
  return {
    state: { ...state, purgedSeq, heldBack: heldBack && { ...heldBack, sinceMs: nowMs } },
    effects: [
      announce("alarm.raised", { alarm: "groups-full", detail }),
      { type: "groups.purge", beforeSeq: purgedSeq },
    ],
  };
}

function medianSeqOf(receipts: readonly KeptReceipt[]): number | null {
  const seqs = receipts.map(({ streamSeq }) => streamSeq).sort((a, b) => a - b);
  return seqs[Math.floor(seqs.length / 2)] ?? null;
}

/** True when the next step waits for results, and every committed one is in a checkpoint already. */
function isStuck(state: ControllerState): boolean {
  const { step, groups, checkpoints, ending } = state;
  const next = groups[step.step];
  if (ending || step.state !== "sampling" || !next || isSettled(next, groupsIn(state, step.step))) return false;
  return step.step - 1 <= (checkpoints.saved?.step ?? 0);
}

/** A piece of work of which some is stored. */
interface Begun {
  readonly partial?: PartialGroup | undefined;
}

/** Responses that were begun and are stored up to `cut` are begun anew, should their holder die. */
function withoutBegun(state: ControllerState, cut: number): ControllerState {
  const isGone = ({ partial }: Begun): boolean => partial !== undefined && firstSeqOf(partial) <= cut;
  const anew = <T extends Begun>(item: T): T => {
    const { partial: _, ...rest } = item;
    return isGone(item) ? (rest as T) : item;
  };
  const leases = Object.entries(state.leases).reduce((table, [id, lease]) => {
    const items = lease.items.map((item) => (item.purpose === "train" ? anew(item) : item));
    return items.some((item, i) => item !== lease.items[i]) ? withLease(table, id, { ...lease, items }) : table;
  }, state.leases);
  const queued = Object.entries(state.groups).filter(([, { queue }]) => queue.some(isGone));
  const groups = queued.map(([step, each]) => [step, { ...each, queue: each.queue.map(anew) }] as const);
  return { ...state, leases, groups: { ...state.groups, ...Object.fromEntries(groups) } };
}

function again(state: ControllerState, { step, index, attempt }: KeptReceipt): ControllerState {
  const groups = state.groups[step];
  if (!groups) return state;
  const without = withGroups(state, step, { ...groups, receipts: withoutEntry(groups.receipts, `${index}`) });
  const item = { purpose: "train", step, index, attempt } as const;
  return requeue(without, [item], { holder: "", reason: "it made room", failure: null }).state;
}
