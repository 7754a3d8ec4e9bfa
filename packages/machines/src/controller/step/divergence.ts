/**
 * Trainers that compute other weights than the majority (F3). Once is a flipped bit; one that differs again and again has a host or a build
 * that computes wrong, and every step of it is for nothing: it is evicted, and its next life has to wait also when the first one is known to
 * have ended.
 */
import type { Change } from "../events.ts";
import { evictHeld } from "../orders.ts";
import { type ControllerState, type Member, meshMembersOf } from "../state.ts";

/** Steps that are remembered. */
const window = 10;

/** Of these so many may differ, less one. */
const divergentMax = 3;

/** Notes who computed other weights in the step that is committed now; what is long ago is forgotten. Pure. */
export function noteDivergence(state: ControllerState, step: number, divergent: readonly Member[]): ControllerState {
  const known = state.divergences ?? {};
  if (divergent.length === 0 && Object.keys(known).length === 0) return state;
  const ids = [...new Set([...Object.keys(known), ...divergent.map(({ id }) => id)])];
  const entries = ids.flatMap((id): [string, readonly number[]][] => {
    const isNew = divergent.some((member) => member.id === id);
    const steps = [...(known[id] ?? []), ...(isNew ? [step] : [])].filter((own) => own > step - window && own <= step);
    return steps.length > 0 ? [[id, steps]] : [];
  });
  return { ...state, divergences: Object.fromEntries(entries) };
}

/** Evicts a trainer that differs again and again. Pure. */
export function planDivergent(state: ControllerState): Change<ControllerState> | null {
  const { divergences = {}, ending, step } = state;
  if (ending || step.state === "running") return null;
  const wrong = meshMembersOf(state).find(({ id }) => (divergences[id] ?? []).length >= divergentMax);
  if (!wrong) return null;
  const { [wrong.id]: steps = [], ...others } = divergences;
  const out = evictHeld(state, wrong, `computed other weights than the majority in steps ${steps.join(", ")}`);
  return { state: { ...out.state, divergences: others }, effects: out.effects };
}
