/** How the learning rate goes over a run. Only +, −, ·, / and √, so that the bits are the same everywhere. */
import type { lrSchedules } from "@muster/protocol";

/** How the learning rate goes over a run. */
export interface LearningRate {
  readonly lr: number;
  /** Steps over which it rises from 0. */
  readonly warmupSteps: number;
  /** Share of `lr` that is left at step `steps`; 1 or absent: it stays. */
  readonly finalRatio?: number;
  /** Length of the run; needed when it falls. */
  readonly steps?: number;
  /** How it falls: in a line (default), along half a cosine, with 1 / √step, or not at all. */
  readonly schedule?: (typeof lrSchedules)[number] | undefined;
}

/** Learning rate of a step, counted from 1: rises linearly over the first `warmupSteps`, then goes as `schedule` says. */
export function learningRateAt(step: number, options: LearningRate): number {
  const { lr, warmupSteps, finalRatio = 1, steps = step, schedule = "linear" } = options;
  if (step < warmupSteps) return (lr * step) / warmupSteps;
  const span = Math.max(1, steps - warmupSteps);
  const passed = Math.min(1, (step - warmupSteps) / span);
  if (schedule === "constant") return lr;
  if (schedule === "inverse_sqrt") return lr * Math.max(finalRatio, Math.sqrt(Math.max(1, warmupSteps) / step));
  const fallen = schedule === "cosine" ? (1 - cosineOfHalfTurns(passed)) / 2 : passed;
  return lr * (1 - (1 - finalRatio) * fallen);
}

/** cos(π · x) for x in 0 … 1, by its power series up to the middle; what is left out is below 1e-12. */
function cosineOfHalfTurns(x: number): number {
  if (x > 0.5) return -cosineOfHalfTurns(1 - x);
  const square = Math.PI * x * Math.PI * x;
  let [term, sum] = [1, 1];
  for (let k = 1; k <= 10; k++) {
    term *= -square / ((2 * k - 1) * (2 * k));
    sum += term;
  }
  return sum;
}
