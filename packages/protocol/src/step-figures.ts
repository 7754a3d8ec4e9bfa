/**
 * The figures of a committed step that people who train look at: one table, from which the lines of `metrics.jsonl`, the metrics page, the event
 * files for TensorBoard and the text of `muster watch` are made. The formulas are in docs/operating/training-figures.md.
 */
import type { Body } from "./messages/index.ts";

type Committed = Body<"step.committed">;

/** Fields of a commit that are figures. */
export type FigureName = {
  [K in keyof Committed]-?: NonNullable<Committed[K]> extends number ? K : never;
}[keyof Committed];

/** One figure of a step. */
export interface StepFigure {
  /** Field of `step.committed`. */
  readonly field: FigureName;
  /** What it belongs to, as TensorBoard groups it. */
  readonly family: "reward" | "policy" | "response" | "speed";
  /** One sentence, with the unit. */
  readonly says: string;
}

const rows = {
  reward: ["reward", "Mean reward of the trajectories."],
  rewardSpread: ["reward", "Standard deviation of the rewards of all trajectories."],
  rewardLeast: ["reward", "Smallest reward."],
  rewardMost: ["reward", "Largest reward."],
  evenGroups: [
    "reward",
    "Share of groups whose members have no advantage over each other, 0 to 1: they teach nothing.",
  ],
  loss: ["policy", "Objective of the algorithm, negated, per response token: of GRPO the clipped surrogate."],
  heldOutLoss: [
    "policy",
    "Loss on held-out rows under the weights that the step made, nats per answer token; of steps after which it is measured.",
  ],
  approxKl: [
    "policy",
    "KL of the policy that sampled and the one that trains, nats per response token: the estimator r - 1 - log r.",
  ],
  logprobGap: [
    "policy",
    "Mean distance of trained and sampled log-probabilities before the first update of the step, nats per response token.",
  ],
  logprobGapMax: [
    "policy",
    "Largest distance of trained and sampled log-probabilities of a token before the first update of the step, in nats.",
  ],
  klReference: ["policy", "KL to the reference policy, nats per response token: the estimator k3."],
  clipFraction: ["policy", "Share of response tokens whose ratio was clipped, 0 to 1."],
  entropy: ["policy", "Entropy of the trained policy, nats per response token."],
  gradNorm: ["policy", "Norm of the gradient of the last update of the step, before clipping."],
  lr: ["policy", "Learning rate."],
  staleness: ["policy", "Versions between the oldest sample and the weights that were trained."],
  lengthMean: ["response", "Mean length of the responses, in tokens."],
  lengthMax: ["response", "Length of the longest response, in tokens."],
  truncated: ["response", "Share of responses that ended because there was no room for more, 0 to 1."],
  tokens: ["response", "Response tokens of the step."],
  trainTokensPerS: ["speed", "Tokens per second of all trainers together, while they compute."],
  sampleTokensPerS: ["speed", "Tokens per second of all samplers together, while they generate."],
  stepMs: ["speed", "Time from the order to train until the commit, in milliseconds."],
  computeMs: ["speed", "Time that the slowest trainer computed, in milliseconds."],
  reduceMs: ["speed", "Longest time that a trainer summed gradients with the others, in milliseconds."],
} as const satisfies Partial<Record<FigureName, readonly [StepFigure["family"], string]>>;

/** All of them, in the order in which they are shown. */
export const stepFigures: readonly StepFigure[] = Object.entries(rows).map(([field, [family, says]]) => ({
  field: field as FigureName,
  family,
  says,
}));

/** The name of a figure where names are in lower case with underscores: `approx_kl`. */
export function figureNameOf(field: FigureName): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The name of a figure on the metrics page: `muster_train_approx_kl`. */
export function figureMetricOf(field: FigureName): string {
  return `muster_train_${figureNameOf(field)}`;
}

/** The figures that a commit has, in the order of the table. Pure. */
export function figuresOf(body: Committed): readonly (StepFigure & { readonly value: number })[] {
  return stepFigures.flatMap((figure) => {
    const value = body[figure.field];
    return value === undefined ? [] : [{ ...figure, value }];
  });
}
