/**
 * The search for the group that ends its trainers. After some lost attempts in a row halves of the batch are computed by themselves, and what
 * comes of it is thrown away: a half over which a trainer ends holds the group, one that is computed does not. Who ends a trainer twice when it
 * is alone is given up, as a poison prompt is; a trainer that ended by chance only makes a search fail. Then the whole batch runs again. In a storm,
 * where others are lost as well, twice may be chance, too, and it takes as many as of a sampler's losses (`groups/outside-losses.ts`).
 */
import { type CauseCount, failureRuleOf } from "@muster/protocol";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import { noteQuarantined } from "../groups/given-up.ts";
import { withGroups } from "../groups/leases.ts";
import { isSettled, receiptsOf } from "../groups/ledger.ts";
import { countAmong, failuresOf, withOutsideLoss, withoutOutsideLosses } from "../groups/outside-losses.ts";
import { moved } from "../progress.ts";
import { groupsIn } from "../sizes.ts";
import type { ControllerState, KeptReceipt } from "../state.ts";
import { lossesOf, withLosses } from "./lost-attempts.ts";
import type { LostAttempts, Search } from "./step-state.ts";

/** Lost attempts after which the batch is searched, and again after as many more: sooner than nodes give up a trainer that keeps ending. */
const lossesPerSearch = 3;

/** Ends of trainers over a group alone that prove it, as {@link failuresOf} counts them. */
const proofs = 2;

/** What the next attempt at the present step computes: all groups, or those that are on trial. Pure. */
export function batchReceiptsOf(state: ControllerState): readonly KeptReceipt[] {
  const groups = state.groups[state.step.step];
  const all = groups ? receiptsOf(groups) : [];
  const { search } = lossesOf(state);
  return search ? all.filter(({ index }) => search.trial.includes(index)) : all;
}

/** True while an attempt only shows whether trainers survive it. Pure. */
export function isTrial(state: ControllerState): boolean {
  return lossesOf(state).search !== undefined;
}

/** Begins a search, and draws the conclusion from a trial that was lost, once the next attempt could begin. Pure. */
export function planSearch(state: ControllerState): Change<ControllerState> | null {
  const { step, mesh, ending } = state;
  const losses = lossesOf(state);
  const groups = state.groups[step.step];
  const isNext = step.state === "sampling" && mesh.state === "ready" && !ending;
  if (!isNext || !groups || !isSettled(groups, groupsIn(state, step.step))) return null;
  const { search } = losses;
  // Somebody else may have given a group on trial up meanwhile.
  if (search && batchReceiptsOf(state).length === 0) return over(state, losses);
  if (!losses.isOpen) return null;
  const closed = { ...losses, isOpen: false };
  if (!search) return losses.count % lossesPerSearch === 0 ? begin(state, closed) : rest(state, closed);
  const isProven = (losses.ended ?? 0) > search.endedBefore;
  if (!isProven) return rest(state, { ...closed, count: losses.count + 1 });
  return search.trial.length > 1 ? narrow(state, closed, search.trial) : convict(state, closed, search);
}

/** What follows from a trial that all trainers survived. Pure. */
export function trialSurvived(state: ControllerState): Change<ControllerState> {
  const losses = lossesOf(state);
  const { search } = losses;
  const left = search ? search.suspects.filter((index) => !search.trial.includes(index)) : [];
  return left.length === 0 ? over(state, losses) : narrow(state, losses, left);
}

function begin(state: ControllerState, losses: LostAttempts): Change<ControllerState> {
  const suspects = batchReceiptsOf(state).map(({ index }) => index);
  const detail =
    `step ${state.step.step} lost its trainers in ${losses.count} attempts in a row: its ${suspects.length} groups are computed in parts, ` +
    "to find the one that ends them";
  return suspects.length === 0 ? rest(state, losses) : alarmed(narrow(state, losses, suspects), detail);
}

function rest(state: ControllerState, losses: LostAttempts): Change<ControllerState> {
  return { state: withLosses(state, losses), effects: [] };
}

/** The half of the suspects that comes first is on trial next. */
function narrow(state: ControllerState, losses: LostAttempts, suspects: readonly number[]): Change<ControllerState> {
  const trial = suspects.slice(0, Math.ceil(suspects.length / 2));
  const search: Search = { suspects, trial, alone: 0, endedBefore: losses.ended ?? 0 };
  return { state: moved(withLosses(state, { ...losses, search })), effects: [] };
}

/** A single group has ended a trainer, or something from outside has. */
function convict(state: ControllerState, losses: LostAttempts, search: Search): Change<ControllerState> {
  const { isCrash, outside: before, ...known } = search;
  const alone = search.alone + 1;
  const outside = isCrash ? before : withOutsideLoss(state, before, countAmong(state, losses.outside ?? []));
  const again: Search = {
    ...{ ...known, suspects: search.trial, alone, endedBefore: losses.ended ?? 0 },
    ...(outside ? { outside } : {}),
  };
  if (failuresOf(alone, outside) < proofs)
    return { state: moved(withLosses(state, { ...losses, search: again })), effects: [] };
  return giveUp(state, losses, search.trial[0] ?? 0);
}

/** Nobody was found: what ended trainers came from outside, and is a sign of a storm from now on. */
function over(state: ControllerState, { search: _, outside: __, ...losses }: LostAttempts): Change<ControllerState> {
  const detail = `none of the groups of step ${state.step.step} ends trainers by itself: all of them are computed again`;
  return alarmed(rest(state, { ...losses, isOpen: false }), detail);
}

function giveUp(state: ControllerState, losses: LostAttempts, index: number): Change<ControllerState> {
  const { step } = state.step;
  const groups = state.groups[step];
  const receipt = groups?.receipts[index];
  if (!groups || !receipt) return over(state, losses);
  const { [index]: _, ...receipts } = groups.receipts;
  const { attempts } = failureRuleOf(state.plan.failure, "engine_crash");
  const item = `${step}.${index}`;
  const reason = `it ends the trainers that compute it; the last ends: ${losses.causes.join("; ")}`;
  const cause: Omit<CauseCount, "count"> = {
    name: "Quarantined",
    message: `group ${item}: ${reason}`,
    frame: "trainer",
    failure: "engine_crash",
    sample: `${item}/0`,
  };
  // What it did to its trainers was no storm.
  const explained = withoutOutsideLosses(state, losses.outside ?? []);
  const { spared } = losses;
  const noted = noteQuarantined(withLosses(explained, { count: 0, causes: [], ...(spared ? { spared } : {}) }), cause);
  const ledger = { ...noted.ledger, quarantined: noted.ledger.quarantined + state.plan.groupSize };
  const quarantined = [...groups.quarantined, index];
  const next = withGroups({ ...noted, ledger }, step, { ...groups, receipts, quarantined });
  const holder = losses.last ?? receipt.by ?? "somebody";
  const fact = announce("groups.quarantined", { item, attempts, holder, failure: "engine_crash", reason });
  const detail = `group ${item} of ${receipt.by ?? "somebody"} in message ${receipt.streamSeq} is given up: ${reason}`;
  return alarmed({ state: moved(next), effects: [fact] }, detail);
}

function alarmed({ state, effects }: Change<ControllerState>, detail: string): Change<ControllerState> {
  const alarm: ControllerEffect = announce("alarm.raised", { alarm: "batch", detail });
  return { state, effects: [alarm, ...effects] };
}
