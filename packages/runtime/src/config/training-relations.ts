/** What the keys of an algorithm must be to each other, and to those of the batch and the sampling. */
import { isSupervised, type JobConfig, type Training, trainingDefaults } from "@muster/protocol";
import type { Relation } from "./relation.ts";

const asksFor = (config: JobConfig): Training => config.training ?? trainingDefaults;

/** What supervised fine-tuning leaves no room for: nothing is drawn, so nothing is compared, judged or corrected. */
const supervisedRelations: readonly Relation[] = (
  [
    [
      "rollout.generate",
      ({ rollout }) => rollout.generate === null,
      "responses are the answers of the data",
      "leave {0} out",
    ],
    [
      "rollout.agent.command",
      ({ rollout }) => rollout.agent === undefined,
      "responses are the answers of the data",
      "leave {0} out",
    ],
    ["rollout.fan_out", ({ rollout }) => rollout.fanOut === 1, "a prompt has one answer", "set {0} = 1"],
    [
      "prompts.answer_column",
      ({ prompts }) => prompts === undefined || prompts.answerColumn !== null,
      "it learns from the answers",
      "name their column",
    ],
    [
      "sampling.temperature",
      ({ sampling }) => sampling.temperature === 1,
      "nothing is sampled, and the loss is that of the model as it is",
      "set {0} = 1",
    ],
    [
      "training.kl_coefficient",
      (config) => asksFor(config).klCoefficient === 0,
      "the divergence is estimated from tokens that the model drew",
      "set {0} = 0",
    ],
    [
      "training.stale_correction",
      (config) => asksFor(config).staleCorrection === "off",
      "no weights drew the answers",
      'set {0} = "off"',
    ],
    [
      "training.train_groups",
      (config) => asksFor(config).trainGroups === 0,
      "groups have no spread of rewards",
      "set {0} = 0",
    ],
    [
      "training.overlong_tokens",
      (config) => asksFor(config).overlongTokens === 0,
      "there is no reward to lose",
      "set {0} = 0",
    ],
  ] satisfies readonly (readonly [string, Relation["holds"], string, string])[]
).map(([key, holds, why, fix]) => ({
  keys: [key, "training.algorithm"],
  holds: (config) => !isSupervised(config) || holds(config),
  rule: `{0} does not go with {1}: ${why}`,
  fix: fix.replace("{0}", key),
}));

export const trainingRelations: readonly Relation[] = [
  ...supervisedRelations,
  {
    keys: ["evaluation.loss_rows", "training.algorithm"],
    holds: (config) => isSupervised(config) || (config.evaluation.lossRows ?? 0) === 0,
    rule: "{0} does not go with {1}: only sft learns from answers, and has a loss on them",
    fix: "set evaluation.loss_rows = 0, or leave it out",
  },
  {
    keys: ["batch.group_size", "training.algorithm"],
    holds: (config) => isSupervised(config) === (config.batch.groupSize === 1),
    rule: (config) =>
      isSupervised(config)
        ? "{0} does not go with {1}: a prompt has one answer"
        : "{0} does not go with {1}: an answer is compared with the others of its group",
    fix: (config) =>
      isSupervised(config) ? "set batch.group_size = 1, or leave it out" : "set batch.group_size to at least 2",
  },
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
