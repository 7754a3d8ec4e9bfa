/** Jobs whose trainers need not agree on bits (decision 0038), and trainers that do not. */
import type { Random } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import type { WorkModel } from "../cluster/scenario.ts";

/** Adds a level of agreement below that of all bits, and how often arithmetic drifts. At `weights` only what no sampler sees drifts. */
export function withDrift<S extends { readonly config: JobConfig; readonly work: WorkModel }>(
  scenario: S,
  random: Random,
): S {
  const agreement = random.next() < 0.5 ? "weights" : "leader";
  // Bits that agree although they need not end where the quiet run does.
  const driftRate = [0, 0.05, 0.5, 1][random.below(4)] ?? 1;
  return { ...scenario, config: { ...scenario.config, agreement }, work: { ...scenario.work, driftRate } };
}
