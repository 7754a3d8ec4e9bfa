/**
 * The last trainer is not given up over a batch. While a step loses its trainers the group that ends them is searched for, and somebody has to compute
 * its parts (`step/search-batch.ts`). A trainer that ends whatever it computes is given up all the same: it is spared so often in one step, and no more.
 */
import { announce, type Change } from "../events.ts";
import { type ControllerState, membersOf } from "../state.ts";
import { lossesOf, withLosses } from "../step/lost-attempts.ts";

/** How often in one step: with the deaths that nodes allow each time, enough for the groups of two searches. */
const sparedMax = 4;

/** True for the only trainer that is left while its step loses trainers. Pure. */
export function isNeeded(state: ControllerState, id: string): boolean {
  const { replicas } = state.fleet;
  const own = replicas[id];
  const { count, search, spared = 0 } = lossesOf(state);
  const isOfBatch = count > 0 || search !== undefined;
  if (own?.role !== "policy" || own.leaving || state.ending || !isOfBatch || spared >= sparedMax) return false;
  const others = Object.entries(replicas).filter(([other, { role }]) => role === "policy" && other !== id);
  const areGone = others.every(([, { health, leaving }]) => leaving || health === "RETIRED" || health === "LEFT");
  return areGone && membersOf(state, "policy").every((member) => member.id === id);
}

/** Says that it begins again, and counts it. Pure. */
export function spare(state: ControllerState, id: string, reason: string): Change<ControllerState> {
  const losses = lossesOf(state);
  const { step } = state.step;
  const detail =
    `${id} would be given up: ${reason}; it begins again, because step ${step} loses its trainers ` +
    "and no other is left to find the group that ends them";
  return {
    state: withLosses(state, { ...losses, spared: (losses.spared ?? 0) + 1 }),
    effects: [announce("alarm.raised", { alarm: "batch", detail })],
  };
}
