/**
 * How fast members are, measured against each other (semantics 6.10): a trainer by the time that it computes in a step, a sampler by its time
 * for a group. Only ratios within one step count, so a job that is slow as a whole has no straggler.
 */
import { medianOf } from "@muster/base";
import { keptFold } from "../../table/fold.ts";
import { entriesOf, sizeOf, withEntry } from "../../table/table.ts";
import { type ControllerState, type Member, meshMembersOf, type Pace, type StepPace } from "../state.ts";

/** Steps that are remembered: as many as it takes to evict a trainer. */
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
  return { ...state, paces: withEntry(state.paces, id, { ...pace, msPerGroup }) };
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
  const own = paceOf(state, member).msPerGroup;
  if (own === null || own === 0) return 1;
  if (sizeOf(state.paces) >= manyMin) return Math.min(1, usualMs(state.paces) / own);
  const times = entriesOf(state.paces).flatMap(([id, { msPerGroup, incarnation }]) => {
    const other = state.members[id];
    return other?.role === "rollout" && other.incarnation === incarnation ? (msPerGroup ?? []) : [];
  });
  return times.length < comparableMin ? 1 : Math.min(1, medianOf(times) / own);
}

/** From so many paces on the median is that of a histogram, which one new pace changes in one place. */
const manyMin = 64;

/** Classes of the histogram for each doubling of the time: the median is right within 5 %. */
// no mutant: with one more the median is as right
const classesPerDoubling = 8;

type Histogram = readonly (readonly [place: number, count: number])[];

const histogram = keptFold<Pace, Histogram>({
  empty: [],
  of: ({ msPerGroup }) =>
    msPerGroup === null ? [] : [[Math.round(Math.log2(Math.max(msPerGroup, 0.01)) * classesPerDoubling), 1]],
  join: (a, b) => {
    const counts = new Map(a);
    for (const [place, count] of b) counts.set(place, (counts.get(place) ?? 0) + count);
    return [...counts].sort(([one], [other]) => one - other);
  },
});

function usualMs(paces: ControllerState["paces"]): number {
  const counts = histogram.of(paces);
  let left = counts.reduce((sum, [, count]) => sum + count, 0) / 2;
  const [place] = counts.find(([, count]) => {
    left -= count;
    return left <= 0;
  }) ?? [0];
  return 2 ** (place / classesPerDoubling);
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
