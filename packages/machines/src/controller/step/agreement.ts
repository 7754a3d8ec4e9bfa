/**
 * What trainers must agree on before a step is committed, and who of them is right. At every level one candidate is committed, that of the first rank
 * that agrees, and whoever has other bytes pulls it: a version has one digest, whatever the level. The level says when other bytes are
 * wrong, and when they are only other ones.
 */
import { digestsOf, type JobConfig, type Section, sectionsOfPart } from "@muster/protocol";
import { announce, type ControllerEffect } from "../events.ts";
import type { ControllerState, Member, Vote } from "../state.ts";

/** Level of agreement: `state`, `weights` or `leader`. */
export type Agreement = NonNullable<JobConfig["agreement"]>;

/** Share of the weights' norm by which a trainer may drift from the first rank before that is an alarm. */
const driftMax = 0.01;

/** Who computed what is committed, what is as good, and what is wrong. */
export interface Verdicts {
  /** They have the bytes that are committed, the first rank first. Nobody, when all who agreed are dead. */
  readonly same: readonly Member[];
  /** They agree at the level of the job and have other bytes. */
  readonly drifted: readonly Member[];
  /** They do not agree. */
  readonly divergent: readonly Member[];
}

/**
 * Judges the votes of a step that all living members voted to commit: what a majority agrees on is right. The dead who voted are counted: a survivor does
 * not outvote two who agreed. Pure.
 *
 * @param survivors - In the order of their ranks.
 * @returns `null` when there is no majority for anything.
 */
export function verdictsOf({ step, plan }: ControllerState, survivors: readonly Member[]): Verdicts | null {
  const keyOf = ({ sections }: Vote): string => agreedOn(plan.agreement ?? "state", sections);
  const voted = Object.values(step.votes).filter(({ vote }) => vote === "commit");
  const counts = new Map<string, number>();
  for (const vote of voted) counts.set(keyOf(vote), (counts.get(keyOf(vote)) ?? 0) + 1);
  const winner = [...counts].find(([, votes]) => votes * 2 > voted.length)?.[0];
  if (winner === undefined) return null;
  const sectionsOf = ({ id }: Member): readonly Section[] => step.votes[id]?.sections ?? [];
  const isRight = (member: Member): boolean => agreedOn(plan.agreement ?? "state", sectionsOf(member)) === winner;
  const agreeing = survivors.filter(isRight);
  const committed = agreeing[0] ? digestsOf(sectionsOf(agreeing[0])) : "";
  const isSame = (member: Member): boolean => digestsOf(sectionsOf(member)) === committed;
  return {
    same: agreeing.filter(isSame),
    drifted: agreeing.filter((member) => !isSame(member)),
    divergent: survivors.filter((member) => !isRight(member)),
  };
}

/** What is compared of the sections of a vote. */
function agreedOn(agreement: Agreement, sections: readonly Section[]): string {
  if (agreement === "leader") return "";
  return digestsOf(agreement === "weights" ? sectionsOfPart(sections, "serving") : sections);
}

/**
 * How far the weights of those who drifted are from those of the first rank at most, as a share of these weights' norm: the distance of their sketches,
 * which is that of the weights within a third or so. `null` where nobody drifted, or nobody said a sketch. Pure.
 */
export function driftOf({ step }: ControllerState, { same, drifted }: Verdicts): number | null {
  const sketchOf = ({ id }: Member): readonly number[] => step.votes[id]?.sketch ?? [];
  const first = same[0] ? sketchOf(same[0]) : [];
  const norm = Math.hypot(...first);
  const distances = drifted.flatMap((member) => {
    const own = sketchOf(member);
    return own.length === first.length && norm > 0 ? Math.hypot(...own.map((x, i) => x - (first[i] ?? 0))) / norm : [];
  });
  return distances.length > 0 ? Math.max(...distances) : null;
}

/** What a drift is worth saying: an alarm beyond the bound. Pure. */
export function driftAlarms({ step }: ControllerState, drift: number | null): readonly ControllerEffect[] {
  if (drift === null || drift <= driftMax) return [];
  const share = (100 * drift).toPrecision(2);
  const detail = `in step ${step.step} weights drifted from those of the first rank by ${share} % of their norm, more than ${100 * driftMax} %`;
  return [announce("alarm.raised", { alarm: "drift", detail })];
}
