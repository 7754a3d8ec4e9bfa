/**
 * How full the groups stream is. Only a checkpoint lets the controller empty it, so one is ordered while there is still room (`plan-checkpoint.ts`), and
 * samplers need not wait.
 */
import { formatSize } from "@muster/base";
import { isQuorumThere, quorumText } from "../checkpoints/quorum.ts";
import { announce, type Change, type FilledEvent } from "../events.ts";
import type { ControllerState } from "../state.ts";
import type { Fill } from "../step/step-state.ts";

/** Shares of a stream's bound at which the controller hears how full it is, up and down. */
const marks = [0.75, 0.9];

/** How many of the marks a stream has passed: what changes it is a fact for the journal, and nothing else is. Pure. */
export function fillLevelOf({ bytes, bytesMax }: Fill): number {
  return bytesMax === null ? 0 : marks.filter((share) => bytes >= share * bytesMax).length;
}

/** True when what is seen of a stream is news: it passed a mark, or it took more above the last one. Pure. */
export function isFillNews(known: Fill | undefined, seen: Fill): boolean {
  const level = fillLevelOf(seen);
  if (level !== (known ? fillLevelOf(known) : 0)) return true;
  return level === marks.length && seen.lastSeq !== known?.lastSeq;
}

/** True when the groups stream is so full that a checkpoint should make room. Pure. */
export function isNearlyFull({ groupsFill }: ControllerState): boolean {
  return groupsFill !== undefined && fillLevelOf(groupsFill) > 0;
}

/** Takes in how full the groups stream is; the operator hears of it where nothing will make room. Pure. */
export function applyFilled(state: ControllerState, event: FilledEvent): Change<ControllerState> {
  const { bytes, bytesMax, lastSeq } = event;
  const seen = lastSeq === undefined ? {} : { lastSeq, atMs: state.nowMs };
  const next = { ...state, groupsFill: { bytes, bytesMax, ...seen } };
  const isNew = isNearlyFull(next) && !isNearlyFull(state);
  if (!isNew || state.plan.checkpointReplicas > 0) return { state: next, effects: [] };
  const detail = `the groups stream fills, and then results have to wait; ${roomOf(next)}${remedyFor(next)}`;
  return { state: next, effects: [announce("alarm.raised", { alarm: "groups-full", detail })] };
}

/** How full it was when it passed a mark last, in words; empty before that. Pure. */
export function roomOf({ groupsFill }: ControllerState): string {
  if (!groupsFill) return "";
  const { bytes, bytesMax } = groupsFill;
  const of = bytesMax === null ? "" : ` of ${formatSize(bytesMax)}`;
  return `it held ${formatSize(bytes)}${of} when it was looked at last; `;
}

/** What makes room, or why nothing does. Pure. */
export function remedyFor(state: ControllerState): string {
  const { plan, step, checkpoints } = state;
  const committed = step.step - 1;
  const byHand = "give the stream more room (max_bytes) on the broker";
  if (plan.checkpointReplicas === 0) return `no checkpoint makes room because the job has none: ${byHand}`;
  if (committed <= (checkpoints.saved?.step ?? 0))
    return `all of it is needed for steps that are not trained yet, so no checkpoint makes room: ${byHand}`;
  if (!isQuorumThere(state, committed)) return `no checkpoint makes room: ${quorumText(state, committed)}`;
  return `a checkpoint of step ${committed} is ordered, which makes room`;
}
