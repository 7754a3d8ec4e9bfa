/** The keys that say how a batch becomes a loss, and what an algorithm brings along for others. */
import {
  type AlgorithmName,
  aggregations,
  algorithmDefaults,
  algorithmNames,
  klEstimators,
  klPlaces,
  staleCorrections,
  trainingDefaults,
} from "@muster/protocol";
import type { Field, Scalar } from "./field.ts";
import { section } from "./field-section.ts";

type Read = (key: string) => Scalar;

/** The default that the algorithm of a job has for a key; that of GRPO where its name is not known, which is a fault of its own. */
export function broughtBy<K extends keyof (typeof algorithmDefaults)["grpo"]>(
  key: K,
): (read: Read) => (typeof algorithmDefaults)["grpo"][K] {
  return (read) => {
    const name = String(read("training.algorithm")) as AlgorithmName;
    return (algorithmDefaults[name] ?? algorithmDefaults.grpo)[key];
  };
}

/** A share of the longest response, in tokens. */
const overlong = (read: Read): Scalar =>
  Math.floor(broughtBy("overlongShare")(read) * Number(read("sampling.max_new_tokens")));

const { algorithm, trainGroups, overlongPenalty, klCoefficient, klEstimator, klIn, entropyCoefficient } =
  trainingDefaults;

/** How a batch becomes a loss. */
export const trainingFields: readonly Field[] = section("training", {
  algorithm: ["text", algorithm, `Algorithm: ${algorithmNames.join(", ")}.`],
  aggregation: [
    "text",
    broughtBy("aggregation"),
    `What the loss is averaged over: ${aggregations.join(", ")}; token for grpo, dapo, cispo, reinforce++ and sft, sequence for gspo, budget for dr_grpo, sum for rloo.`,
  ],
  train_groups: [
    "integer",
    trainGroups,
    "Groups of a step that are trained on, at most: the first of batch.groups_per_step with a spread of rewards; 0 for all.",
  ],
  overlong_tokens: [
    "integer",
    overlong,
    "Tokens before sampling.max_new_tokens from which on a response loses reward; 0 for none, a fifth of it for dapo.",
  ],
  overlong_penalty: ["number", overlongPenalty, "What a response of sampling.max_new_tokens loses."],
  kl_coefficient: [
    "number",
    klCoefficient,
    "Weight of the divergence from a reference policy; above 0, each trainer holds its weights as well.",
  ],
  kl_estimator: [
    "text",
    klEstimator,
    `How the divergence is estimated: ${klEstimators.join(", ")}; in a loss, k1 has no gradient in the mean.`,
  ],
  kl_in: ["text", klIn, `Where the divergence counts: ${klPlaces.join(" or ")}.`],
  reference: ["optional-path", "", "Hugging Face folder of the reference policy; empty for the job's initial weights."],
  entropy_coefficient: ["number", entropyCoefficient, "Weight of the bonus for entropy."],
  stale_correction: [
    "text",
    trainingDefaults.staleCorrection,
    `What becomes of the importance ratio of tokens that older weights drew: ${staleCorrections.join(", ")}; mask drops a token beyond the cap.`,
  ],
  stale_cap: ["number", trainingDefaults.staleCap, "Largest such ratio; for mask also one over the smallest."],
});
