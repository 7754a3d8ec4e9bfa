/** Lets replicas in that had to wait after an eviction. */

import { type Change, command } from "../events.ts";
import { type ControllerState, without } from "../state.ts";
import { admit, refusalOf } from "./apply-membership.ts";
import { mustWait } from "./evictions.ts";

/** Admits whoever has waited long enough; when the job is ending they are told to go. Pure. */
export function planReadmission(state: ControllerState): Change<ControllerState> | null {
  const due = Object.entries(state.waiting).filter(([id]) => state.ending || !mustWait(state, id));
  if (due.length === 0) return null;
  return due.reduce<Change<ControllerState>>(
    (change, [id, { incarnation, body }]) => {
      const to = { id, incarnation };
      const reason = refusalOf(change.state, id, body);
      const next = reason
        ? {
            state: { ...change.state, waiting: without(change.state.waiting, id) },
            effects: [command(to, "replica.refused", { reason })],
          }
        : admit(change.state, to, body);
      return { state: next.state, effects: [...change.effects, ...next.effects] };
    },
    { state, effects: [] },
  );
}
