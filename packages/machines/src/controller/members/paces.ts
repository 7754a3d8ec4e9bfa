/**
 * How fast members are, measured against each other (semantics 6.10): a trainer by the time that it computes in a step, a sampler by its time
 * for a group. Only ratios within one step count, so a job that is slow as a whole has no straggler.
 */
import { medianOf } from "@muster/base";
import { type ControllerState, type Member, membersOf, meshMembersOf, type Pace, type StepPace } from "../state.ts";

/** Steps that are remembered: as many as it takes to put a trainer out. */
export const paceSteps = 20;

/** Fewer than three have no median that one of them does not make. */
const comparableMin = 3;

/** Weight of the newest measurement. */
const smoothing = 0.3;

/** The spread counts as at least this share of the median: among equals the slightest delay would stand out. */
const spreadMin = 0.2;

/** Notes how long a sampler took for groups. Pure. */
export function noteGroups(
  state: ControllerState,
  id: string,
  { groups, durationMs }: { readonly groups: number; readonly durationMs: number },
): ControllerState {
  const member = state.members[id];
  if (!member || groups === 0) return state;
  const pace = paceOf(state, member);
  const newest = durationMs / groups;
  const msPerGroup = pace.msPerGroup === null ? newest : (1 - smoothing) * pace.msPerGroup + smoothing * newest;
  return { ...state, paces: { ...state.paces, [id]: { ...pace, msPerGroup } } };
}

/** Compares the trainers of a step that is committed; who is gone is forgotten. Pure. */
export function noteStep(state: ControllerState): ControllerState {
  const trainers = meshMembersOf(state).flatMap((member) => {
    const stats = state.step.votes[member.id]?.stats;
    return stats ? [{ member, ms: stats.computeMs }] : [];
  });
  const judged = new Map(judge(trainers));
  const paces = Object.values(state.members).flatMap((member): [string, Pace][] => {
    const pace = paceOf(state, member);
    const step = judged.get(member.id);
    if (!step) return pace.msPerGroup === null ? [] : [[member.id, { ...pace, steps: [] }]];
    return [[member.id, { ...pace, steps: [...pace.steps, step].slice(-paceSteps) }]];
  });
  return { ...state, paces: Object.fromEntries(paces) };
}

/** What is known of a member; of its earlier lives nothing is. Pure. */
export function paceOf(state: ControllerState, { id, incarnation }: Member): Pace {
  const known = state.paces[id];
  return known?.incarnation === incarnation ? known : { incarnation, msPerGroup: null, steps: [], isReported: false };
}

/** Share of a fair lease that a sampler gets: as much less as it is slower than the median, and never more. Pure. */
export function leaseShareOf(state: ControllerState, member: Member): number {
  const times = membersOf(state, "rollout").flatMap((other) => paceOf(state, other).msPerGroup ?? []);
  const own = paceOf(state, member).msPerGroup;
  if (own === null || own === 0 || times.length < comparableMin) return 1;
  return Math.min(1, medianOf(times) / own);
}

interface Measured {
  readonly member: Member;
  readonly ms: number;
}

function judge(measured: readonly Measured[]): readonly [string, StepPace][] {
  if (measured.length < comparableMin) return [];
  const median = medianOf(measured.map(({ ms }) => ms));
  const spread = Math.max(medianOf(measured.map(({ ms }) => Math.abs(ms - median))), spreadMin * median);
  return measured.map(({ member, ms }) => {
    const isTwice = median > 0 && ms >= 2 * median;
    return [member.id, isTwice ? "twice" : ms > median + 3 * spread ? "slow" : "even"];
  });
}
