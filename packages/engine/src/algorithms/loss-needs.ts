/** What the loss of a job asks of its trainers. Pure. */
import { type JobConfig, type Training, trainingDefaults } from "@muster/protocol";
import type { LossFeature, LossOptions } from "../engine.ts";

/** One thing that an engine must know, and the key of the job file that asks for it. */
export interface LossNeed {
  readonly feature: LossFeature;
  readonly key: string;
  readonly value: string | number;
}

/** What this job's trainers must know besides the clipped surrogate. */
export function lossNeedsOf({ training = trainingDefaults, scorers }: JobConfig): readonly LossNeed[] {
  const { algorithm, aggregation, klCoefficient, klIn, entropyCoefficient, staleCorrection } = training;
  const need = (isAsked: boolean, feature: LossFeature, key: string, value: string | number): LossNeed[] =>
    isAsked ? [{ feature, key: `training.${key}`, value }] : [];
  return [
    ...(["gspo", "cispo", "rloo", "sft"] as const).map((name) => need(algorithm === name, name, "algorithm", name)),
    need(aggregation === "sequence", "sample-weights", "aggregation", aggregation),
    need(klCoefficient > 0 && !scorers?.reference, "reference", "kl_coefficient", klCoefficient),
    need(klCoefficient > 0 && klIn === "reward" && algorithm === "reinforce++", "token-advantages", "kl_in", klIn),
    need(entropyCoefficient > 0, "entropy", "entropy_coefficient", entropyCoefficient),
    need(staleCorrection !== "off", "stale", "stale_correction", staleCorrection),
  ].flat();
}

/** What of a job's training is the loss: a divergence in the reward is none of it. */
export function lossOf(training: Training): LossOptions {
  const { algorithm, klIn, klEstimator, entropyCoefficient, staleCorrection, staleCap } = training;
  const klCoefficient = klIn === "loss" ? training.klCoefficient : 0;
  return { algorithm, klCoefficient, klEstimator, entropyCoefficient, staleCorrection, staleCap };
}

/** Where the weights of the reference policy come from that a trainer holds; `null` where it needs none, has a worker for it, or no such folder. */
export function referenceOf({
  training = trainingDefaults,
  weights,
  scorers,
}: JobConfig):
  | { readonly kind: "seed"; readonly seed: number }
  | { readonly kind: "folder"; readonly path: string }
  | null {
  if (training.klCoefficient === 0 || scorers?.reference) return null;
  if (training.reference !== null) return { kind: "folder", path: training.reference };
  return weights.kind === "checkpoint" ? null : weights;
}
