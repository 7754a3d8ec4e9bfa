/** What the keys of an algorithm must be to each other, and to those of the batch and the sampling. */
import { type JobConfig, type Training, trainingDefaults } from "@muster/protocol";
import type { Relation } from "./relation.ts";

const asksFor = (config: JobConfig): Training => config.training ?? trainingDefaults;

export const trainingRelations: readonly Relation[] = [
  {
    keys: ["training.overlong_tokens", "sampling.max_new_tokens"],
    holds: (config) => asksFor(config).overlongTokens < config.sampling.maxNewTokens,
    rule: "{0} must be below {1}: a response would lose reward from its first token on",
    fix: "lower training.overlong_tokens, or set it to 0 for no such loss",
  },
  {
    keys: ["training.train_groups", "batch.groups_per_step"],
    holds: (config) => asksFor(config).trainGroups <= config.batch.groupsPerStep,
    rule: "{0} must not be over {1}: no more groups can teach than are sampled",
    fix: "raise batch.groups_per_step, or set training.train_groups to 0 for all that teach",
  },
  {
    keys: ["loss.clip_low", "training.algorithm"],
    holds: ({ loss }) => loss.clipLow <= 1,
    rule: "{0} with {1} must not be over 1: no ratio is below 0",
    fix: "set loss.clip_low to 1 for no lower bound",
  },
  {
    keys: ["batch.minibatches", "training.algorithm"],
    holds: (config) => asksFor(config).algorithm !== "rloo" || config.batch.minibatches === 1,
    rule: "{0} does not go with {1}, which has no importance ratio: the second update would learn from what other weights drew",
    fix: "set batch.minibatches = 1, or choose another algorithm",
  },
  {
    keys: ["job.staleness_max", "training.algorithm"],
    holds: (config) => {
      const { algorithm, staleCorrection } = asksFor(config);
      return algorithm !== "rloo" || config.stalenessMax === 0 || staleCorrection !== "off";
    },
    rule: "{0} does not go with {1}, which has no importance ratio of its own",
    fix: 'set training.stale_correction = "truncate" or "mask", or job.mode = "sync"',
  },
  {
    keys: ["training.kl_coefficient", "weights.source"],
    holds: (config) => {
      const { klCoefficient, reference } = asksFor(config);
      const isGiven = reference !== null || config.scorers?.reference !== undefined;
      return klCoefficient === 0 || isGiven || config.weights.kind !== "checkpoint";
    },
    rule: "{0} needs a reference policy, and {1} is a training state that goes on",
    fix: "name the folder of the reference policy in training.reference: the model that training began with, or a checkpoint's folder",
  },
  {
    keys: ["training.reference", "training.kl_coefficient"],
    holds: (config) => {
      const { klCoefficient, reference } = asksFor(config);
      return reference === null || klCoefficient > 0;
    },
    rule: "{0} has no effect with {1}",
    fix: "raise training.kl_coefficient or leave training.reference out",
  },
];
