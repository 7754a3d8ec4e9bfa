/** Decisions of a controller with the little of its tables that a checker looks at. */
import type { Decision } from "../../src/journal-model.ts";
import { Judge } from "../../src/judge.ts";

/** A decision over these tables; what a checker does not look at is not there. */
export function decisionOf(type: string, before: object, after: object = before, event: object = {}): Decision {
  return { event: { type, ...event }, before, after, effects: [] } as unknown as Decision;
}

/** A member of some role, as its first life. */
export function memberOf(id: string, role: string): object {
  return { id, role, incarnation: `${id}-i1`, health: "healthy", held: null, order: null };
}

/** Time that a test moves, and what was found until then. */
export class Trial {
  nowMs = 0;
  readonly judge = new Judge(this);

  get broken(): readonly string[] {
    return this.judge.violations.map(({ invariant }) => invariant);
  }
}
