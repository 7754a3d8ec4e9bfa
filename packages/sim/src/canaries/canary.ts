/** A canary: one deliberate bug, as a single wrong line would make it, and where it should sing. */
import type { Bug } from "../cluster/bug.ts";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import type { Profile } from "../seed/draw-scenario.ts";

/** One deliberate bug. */
export interface Canary {
  readonly name: string;
  /** What the wrong line does. */
  readonly says: string;
  /** Faults that bring it out. */
  readonly profile: Profile;
  /** Seeds within which the checkers must see it. */
  readonly seedsMax: number;
  /** Each seed is run twice: the bug makes a run depend on something else than its seed. */
  readonly isRepeated?: boolean;
  /** Changes the shape of the job, for bugs that only show in some. */
  shape?(scenario: Scenario): Scenario;
  /** Faults of its own, for bugs that need a rare meeting of two. */
  stage?(scenario: Scenario): readonly Fault[];
  /** A fresh bug for each run. */
  make(): Bug;
}

/** One fault again and again during the safety phase. */
export function repeated(scenario: Scenario, everyMs: number, make: (atMs: number) => Fault): readonly Fault[] {
  const count = Math.floor(scenario.safetyMs / everyMs);
  return Array.from({ length: count }, (_, i) => make((i + 1) * everyMs));
}
