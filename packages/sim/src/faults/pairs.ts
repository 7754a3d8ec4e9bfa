/**
 * What may be done where: every pair of a failpoint and an action, but for the few that mean nothing or that no job comes to. Which of
 * them happened is the coverage of a run of many seeds.
 */
import type { FailAction } from "./failpoints.ts";
import { fleetPoints, points } from "./points.ts";

/** What can be done at a failpoint. */
export type ActionType = FailAction["type"];

/** One action at one point. */
export interface Pair {
  readonly point: string;
  readonly action: ActionType;
}

/** Pairs that nobody can draw, and why. */
interface Exception {
  readonly where: RegExp;
  readonly actions: readonly ActionType[];
  readonly why: string;
}

const actionTypes: readonly ActionType[] = ["crash", "pause", "hang", "drop", "delay", "error"];
const ofMessages: readonly ActionType[] = ["drop", "delay", "error"];

/** The only pairs that are not drawn. Each of the others has to be reached. */
export const exceptions: readonly Exception[] = [
  {
    where: /\.on\./,
    actions: ["error"],
    why: "a message comes whole or not at all; one that cannot be read is the fault forgery",
  },
  { where: /\.before-ack\./, actions: ["error"], why: "an acknowledgement has no answer that could be an error" },
  {
    where: /^(policy\.(begin|promote|promoted|discard)|node\.keeper-end)$/,
    actions: ofMessages,
    why: "the call ends in the turn in which it began: nothing can be lost or late, and by its contract it does not fail",
  },
  {
    where: /^node\.keeper-(clean|start)$/,
    actions: ["drop"],
    why: "the only wait of a keeper is for the end of a killed process, and has a deadline of its own: it fails, and never hangs",
  },
  {
    where: /^rollout\.reward$/,
    actions: ofMessages,
    why: "a judge that fails by itself makes poison, which has to be the same in every run: the work draws it",
  },
];

/** What can be done at a point. Pure. */
export function actionsAt(point: string): readonly ActionType[] {
  const left = exceptions.flatMap(({ where, actions }) => (where.test(point) ? actions : []));
  return actionTypes.filter((type) => !left.includes(type));
}

const pairsOf = (names: readonly string[]): readonly Pair[] =>
  names.flatMap((point) => actionsAt(point).map((action) => ({ point, action })));

/** Every pair of a job without nodes. */
export const pairs: readonly Pair[] = pairsOf(points);

/** The pairs that only jobs with nodes come to. */
export const fleetPairs: readonly Pair[] = pairsOf(fleetPoints);
