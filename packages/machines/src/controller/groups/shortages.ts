/** Samplers that were short of memory: each time they get half as much to draw in one go (reliability A5). */
import { announce, type Change } from "../events.ts";
import type { ControllerState, Member } from "../state.ts";

/** Notes that a sampler, or its engine, ran out of memory. Its later lives have no more of it. Pure. */
export function noteShortage(state: ControllerState, { id, role }: Member): Change<ControllerState> {
  if (role !== "rollout" || atOnceOf(state, id) === 1) return { state, effects: [] };
  const next = { ...state, shortages: { ...state.shortages, [id]: (state.shortages[id] ?? 0) + 1 } };
  const detail = `${id} was short of memory; from now on it draws at most ${atOnceOf(next, id)} groups in one go`;
  return { state: next, effects: [announce("alarm.raised", { alarm: "memory", detail })] };
}

/** Groups that a sampler draws in one go, at most. Pure. */
export function atOnceOf({ plan, shortages }: ControllerState, id: string): number {
  return Math.max(1, Math.floor(plan.limits.chunkGroups / 2 ** (shortages[id] ?? 0)));
}
