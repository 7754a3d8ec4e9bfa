/** What of a job stands against a level of determinism, before anything was computed. */
import type { JobConfig } from "@muster/protocol";
import type { EngineProblem } from "./adapter.ts";

/**
 * What a job can promise: `L0` every trajectory counts once; `L1` the same data in the same order, drawn with the same seeds; `L2` the same responses to
 * the bit; `L3` the same weights to the bit. Each has those before it.
 */
export const determinismLevels = ["L0", "L1", "L2", "L3"] as const;

/** One of the {@link determinismLevels}. */
export type DeterminismLevel = (typeof determinismLevels)[number];

/** Why a level can not hold, and what to change. */
export interface Contradiction extends EngineProblem {
  /** The lowest level that can not hold. */
  readonly level: DeterminismLevel;
}

/** What the configuration itself says, whatever its engines are. Pure. */
export function configContradictions({ mode, agreement = "state" }: JobConfig): readonly Contradiction[] {
  const found: Contradiction[] = [];
  if (mode === "async")
    found.push({
      level: "L2",
      keys: ["job.mode"],
      text: 'job.mode = "async": which weights draw a response depends on timing; set it to "sync"',
    });
  if (agreement !== "state")
    found.push({
      level: "L3",
      keys: ["job.agreement"],
      text: `job.agreement = "${agreement}": trainers may end with other states, and which of them counts depends on who lives; set it to "state"`,
    });
  return found;
}
