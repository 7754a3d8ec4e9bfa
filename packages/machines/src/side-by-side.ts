/** Runs two cores as one actor: both hear every event, and their effects are executed in order. */
import type { Logic } from "./logic.ts";

/** Snapshots of two cores that run side by side. */
export interface Pair<A, B> {
  readonly first: A;
  readonly second: B;
}

/** Combines two cores into one; each ignores what is not meant for it. Pure. */
export function sideBySide<InputA, EventA, A, EffectA, InputB, EventB, B, EffectB>(
  a: Logic<InputA, EventA, A, EffectA>,
  b: Logic<InputB, EventB, B, EffectB>,
): Logic<Pair<InputA, InputB>, EventA | EventB, Pair<A, B>, EffectA | EffectB> {
  return {
    id: b.id,
    init: (input) => {
      const first = a.init(input.first);
      const second = b.init(input.second);
      return {
        snapshot: { first: first.snapshot, second: second.snapshot },
        effects: [...first.effects, ...second.effects],
      };
    },
    step: (snapshot, event) => {
      const first = a.step(snapshot.first, event as EventA);
      const second = b.step(snapshot.second, event as EventB);
      return {
        snapshot: { first: first.snapshot, second: second.snapshot },
        effects: [...first.effects, ...second.effects],
      };
    },
  };
}
