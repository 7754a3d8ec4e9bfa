/** What values must be to each other. Each rule names both keys, so that its message can name both values, and says how to mend it. */
import { formatDuration } from "@muster/base";
import { detectionPatience, detectorTimingOf } from "@muster/machines";
import { actionsByKind, failureKinds, failureRuleOf, type JobConfig } from "@muster/protocol";
import { networkRelations } from "./network-relations.ts";
import { type Problem, shown } from "./problem.ts";
import type { Relation } from "./relation.ts";
import { scorerRelations } from "./scorer-fields.ts";
import { sizeRelations } from "./size-relations.ts";
import { trainingRelations } from "./training-relations.ts";

/** `timing.<small>` < `timing.<large>`. */
function shorter(small: keyof JobConfig["timing"], large: keyof JobConfig["timing"], why: string): Relation {
  return {
    keys: [timingKey(small), timingKey(large)],
    holds: ({ timing }) => timing[small] < timing[large],
    rule: `{0} must be shorter than {1}: ${why}`,
    fix: `raise ${timingKey(large)} or lower ${timingKey(small)}`,
  };
}

const timingRelations: readonly Relation[] = [
  shorter("suspectAfterMs", "deadAfterMs", "a replica is suspected before it is given up"),
  shorter("heartbeatIntervalMs", "suspectAfterMs", "one late beat is no reason to suspect"),
  {
    keys: ["timing.heartbeat_interval", "timing.dead_after"],
    holds: ({ timing }) => 3 * timing.heartbeatIntervalMs <= timing.deadAfterMs,
    rule: "{1} must be at least three times {0}: a lost beat must not look like a death",
    fix: "raise timing.dead_after or lower timing.heartbeat_interval",
  },
  shorter("tickMs", "suspectAfterMs", "deadlines are looked at once a tick"),
  shorter("deadAfterMs", "stepMs", "a death must be known before its step times out"),
  shorter("collectiveMs", "stepMs", "a failed collective must be reported before its step times out"),
  shorter("meshMs", "stepMs", "a new mesh must form before its step times out"),
  shorter("pullMs", "stepMs", "a pull that starts a step must end before it times out"),
  shorter("joinMs", "stepMs", "a joiner must not wait for longer than a step may take"),
  shorter("commandMs", "stepMs", "a lost order must be repeated before its step times out"),
  shorter("pullMs", "checkpointMs", "a checkpoint pulls its weights first"),
  shorter("saveMs", "leaseMs", "what is drawn must be saved before its lease is over"),
  shorter("rewardMs", "leaseMs", "a slow reward must not cost the whole lease"),
  {
    keys: ["timing.generate", "timing.lease"],
    holds: ({ timing, rollout }) => (rollout.generate === null && !rollout.agent) || timing.generateMs < timing.leaseMs,
    rule: "{0} must be shorter than {1}: a slow sample must not cost the whole lease",
    fix: "raise timing.lease or lower timing.generate",
  },
  {
    keys: ["timing.generate", "health.hung_min"],
    holds: ({ timing, rollout, health }) => !rollout.agent || timing.generateMs <= health.hungMinMs,
    rule: "{0} must not be longer than {1}: a sampler whose agents take all their time must not look as if it hung",
    fix: "raise health.hung_min (and health.hung_max) or lower timing.generate",
  },
  {
    keys: ["rollout.agent.command", "rollout.generate"],
    holds: ({ rollout }) => rollout.generate === null || !rollout.agent,
    rule: "{0} and {1} are both set: one of them samples",
    fix: "leave one of them out",
  },
  {
    keys: ["timing.dead_after", "timing.lease"],
    holds: (config) => detectorTimingOf(config).deadAfterMs.rollout < config.timing.leaseMs,
    rule: `${detectionPatience.rollout} times {0} must be shorter than {1}: a lease must outlive the detection of its holder's death, and rollouts get that much longer`,
    fix: "raise timing.lease or lower timing.dead_after",
  },
];

const healthRelations: readonly Relation[] = [
  {
    keys: ["health.timeout", "health.interval"],
    holds: ({ health }) => health.timeoutMs < health.intervalMs,
    rule: "{0} must be shorter than {1}: one health check ends before the next begins",
    fix: "raise health.interval or lower health.timeout",
  },
  {
    keys: ["health.interval", "timing.pull"],
    holds: ({ health, timing }) => health.intervalMs * health.failureThreshold + health.timeoutMs < timing.pullMs,
    rule: "{0} times health.failure_threshold, and health.timeout, must be shorter than {1}: an engine that is ill must be out before its weights are late",
    fix: "lower health.interval, health.failure_threshold or health.timeout, or raise timing.pull",
  },
  {
    keys: ["health.hung_min", "health.hung_max"],
    holds: ({ health }) => health.hungMinMs <= health.hungMaxMs,
    rule: "{0} must not be longer than {1}: they bound one time",
    fix: "raise health.hung_max or lower health.hung_min",
  },
  {
    keys: ["health.hung_max", "health.grace"],
    holds: ({ health }) => health.hungMaxMs <= health.graceMs,
    rule: "{0} must not be longer than {1}: a start takes longer than a step",
    fix: "raise health.grace or lower health.hung_max",
  },
  {
    keys: ["health.hung_max", "timing.lease"],
    holds: ({ health, timing }) => health.hungMaxMs < timing.leaseMs,
    rule: "{0} must be shorter than {1}: a holder that hangs must be known before its lease ends",
    fix: "raise timing.lease or lower health.hung_max",
  },
  {
    keys: ["health.hung_max", "timing.step"],
    holds: ({ health, timing }) => health.hungMaxMs < timing.stepMs,
    rule: "{0} must be shorter than {1}: a hang must be known before its step times out",
    fix: "raise timing.step or lower health.hung_max",
  },
  {
    keys: ["health.probe_timeout", "timing.dead_after"],
    holds: ({ health, timing }) => 3 * health.probeTimeoutMs < timing.deadAfterMs,
    rule: "three times {0} must be shorter than {1}: a suspect is asked three times before it is given up",
    fix: "lower health.probe_timeout or raise timing.dead_after",
  },
  {
    keys: ["health.missed_beats", "timing.dead_after"],
    holds: ({ health, timing }) => health.missedBeats * timing.heartbeatIntervalMs < timing.deadAfterMs,
    rule: "{0} times timing.heartbeat_interval must be shorter than {1}: a replica is suspected before it is given up",
    fix: "lower health.missed_beats or raise timing.dead_after",
  },
  {
    keys: ["timing.step", "health.progress"],
    holds: ({ health, timing }) => timing.stepMs < health.progressMs,
    rule: "{0} must be shorter than {1}: the watchdog waits for a whole step",
    fix: "raise health.progress or lower timing.step",
  },
];

const jobRelations: readonly Relation[] = [
  {
    keys: ["job.mode", "job.staleness_max"],
    holds: ({ mode, stalenessMax }) => (mode === "sync" ? stalenessMax === 0 : stalenessMax >= 1),
    rule: "{0} and {1} disagree: sync is staleness 0, async is 1 or more",
    fix: "change one of them, or leave job.staleness_max out",
  },
  {
    keys: ["init_replicas.policy", "replicas.policy"],
    holds: ({ replicas, initReplicas }) => initReplicas.policy <= replicas.policy,
    rule: "{0} must not be over {1}: training would wait for replicas that nobody starts",
    fix: "lower init_replicas.policy or raise replicas.policy",
  },
  {
    keys: ["init_replicas.rollout", "replicas.rollout"],
    holds: ({ replicas, initReplicas }) => initReplicas.rollout <= replicas.rollout,
    rule: "{0} must not be over {1}: sampling would wait for replicas that nobody starts",
    fix: "lower init_replicas.rollout or raise replicas.rollout",
  },
  {
    keys: ["min_replicas.policy", "replicas.policy"],
    holds: ({ replicas, minReplicas }) => minReplicas.policy <= replicas.policy,
    rule: "{0} must not be over {1}: the alarm would never end",
    fix: "lower min_replicas.policy or raise replicas.policy",
  },
  {
    keys: ["min_replicas.rollout", "replicas.rollout"],
    holds: ({ replicas, minReplicas }) => minReplicas.rollout <= replicas.rollout,
    rule: "{0} must not be over {1}: the alarm would never end",
    fix: "lower min_replicas.rollout or raise replicas.rollout",
  },
  {
    keys: ["processes.checkpoint", "replicas.checkpoint"],
    holds: ({ processes }) => (processes?.checkpoint ?? 1) === 1,
    rule: "{0} with {1}: a checkpoint actor is one process",
    fix: "set processes.checkpoint = 1",
  },
  {
    keys: ["checkpoint.quorum", "replicas.checkpoint"],
    holds: ({ checkpoint, replicas }) => (checkpoint.quorum ?? 1) <= Math.max(1, replicas.checkpoint),
    rule: "{0} must not be over {1}: no checkpoint would ever count",
    fix: "lower checkpoint.quorum or raise replicas.checkpoint, with a checkpoint actor on each of as many hosts",
  },
  {
    keys: ["checkpoint.shards", "replicas.checkpoint"],
    holds: ({ checkpoint, replicas }) => (checkpoint.shards ?? 1) <= Math.max(1, replicas.checkpoint),
    rule: "{0} must not be over {1}: each shard is the work of another checkpoint actor",
    fix: "lower checkpoint.shards or raise replicas.checkpoint",
  },
  {
    keys: ["checkpoint.shards", "checkpoint.quorum"],
    holds: ({ checkpoint }) => (checkpoint.shards ?? 1) === 1 || (checkpoint.quorum ?? 1) === 1,
    rule: "{0} does not go with {1}: shards are one checkpoint in one folder that all hosts share, and a quorum counts copies on several disks",
    fix: "set checkpoint.quorum = 1 or checkpoint.shards = 1",
  },
  {
    keys: ["batch.micro_shards", "replicas.policy"],
    holds: ({ batch, replicas }) => batch.microShards >= replicas.policy,
    rule: "{0} must be at least {1}: a policy replica without a micro-shard has nothing to do",
    fix: "raise batch.micro_shards or lower replicas.policy",
  },
  {
    keys: ["batch.minibatches", "batch.groups_per_step"],
    holds: ({ batch }) => batch.minibatches <= batch.groupsPerStep,
    rule: "{0} must not be over {1}: a minibatch holds at least one group",
    fix: "lower batch.minibatches or raise batch.groups_per_step",
  },
  {
    keys: ["sampling.max_new_tokens", "task.name"],
    holds: ({ sampling, model }) => sampling.maxNewTokens < model.maxContext,
    rule: "{0} leaves no room for a prompt in the context of {1}",
    fix: "lower sampling.max_new_tokens",
  },
  {
    keys: ["limits.chunk_groups", "limits.lease_groups"],
    holds: ({ limits }) => limits.chunkGroups <= limits.leaseGroupsMax,
    rule: "{0} must not be over {1}: a replica generates within one lease",
    fix: "lower limits.chunk_groups or raise limits.lease_groups",
  },
  {
    keys: ["evaluation.every_steps", "evaluation.prompts"],
    holds: ({ evaluation }) => evaluation.everySteps === 0 || evaluation.prompts > 0 || (evaluation.lossRows ?? 0) > 0,
    rule: "{0} asks for evaluations and {1} gives them no prompts",
    fix: "set evaluation.every_steps = 0 or raise evaluation.prompts",
  },
];

/** What a kind of failure may lead to: a rule that cannot be followed must not look like one. */
const failureRelations: readonly Relation[] = failureKinds.map((kind) => ({
  keys: [`failure.${kind}.action`, `failure.${kind}.attempts`],
  holds: ({ failure }) => actionsByKind[kind].includes(failureRuleOf(failure, kind).action),
  rule: `{0} is not an end that ${kind} can have after {1}: it is one of ${actionsByKind[kind].join(", ")}`,
  fix: `change failure.${kind}.action`,
}));

/**
 * Checks the durations of a job against each other. Pure.
 *
 * @returns A sentence per broken relation; none when all hold.
 */
export function validateTiming(config: JobConfig): readonly string[] {
  const relations = [...timingRelations, ...healthRelations];
  return broken(relations, config, (key) => shownOf(config, key)).map((problem) => problem.text);
}

/** Checks every relation. @param read - The value of a key as it was written. */
export function brokenRelations(config: JobConfig, read: (key: string) => unknown): readonly Problem[] {
  const relations = [
    ...timingRelations,
    ...healthRelations,
    ...jobRelations,
    ...networkRelations,
    ...sizeRelations,
    ...trainingRelations,
    ...scorerRelations,
    ...failureRelations,
  ];
  return broken(relations, config, (key) => shown(read(key)));
}

function broken(relations: readonly Relation[], config: JobConfig, show: (key: string) => string): readonly Problem[] {
  return relations
    .filter((relation) => !relation.holds(config))
    .map(({ keys, rule, fix }) => {
      const sentence = (typeof rule === "string" ? rule : rule(config)).replace(
        /\{([01])\}/g,
        (_, index: "0" | "1") => {
          const key = keys[Number(index) as 0 | 1];
          return `${key} = ${show(key)}`;
        },
      );
      return { keys, text: `${sentence}; ${typeof fix === "string" ? fix : fix(config)}` };
    });
}

function timingKey(name: keyof JobConfig["timing"]): string {
  return `timing.${name.slice(0, -2).replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}

/** A value of `timing` or `health` by its key: durations as people write them, counts as they are. */
function shownOf({ timing, health }: JobConfig, key: string): string {
  const [section = "", snake = ""] = key.split(".");
  const camel = snake.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const table: Readonly<Record<string, number>> = section === "timing" ? timing : health;
  const durationMs = table[`${camel}Ms`];
  return durationMs === undefined ? String(table[camel]) : formatDuration(durationMs);
}
