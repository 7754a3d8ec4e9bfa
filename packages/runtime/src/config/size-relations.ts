/** What fits: a group into a message, the groups that are sampled at a time into their stream. */
import { formatSize } from "@muster/base";
import { groupBytesMax, groupsMessageBytesMax, type JobConfig } from "@muster/protocol";
import { streamRules } from "@muster/transport";
import type { Relation } from "./relation.ts";

const streamBytesMax = streamRules.groups.bytesMax;

/** A task that is not known has a context without end: then there is nothing to compare. */
const isKnown = (bytes: number): boolean => Number.isSafeInteger(bytes);

/** The largest number from `least` on that fits, below one that does not; `null` when none does. */
function largestThatFits(from: number, least: number, fits: (value: number) => boolean): number | null {
  let value = from;
  while (value >= least && !fits(value)) value -= 1;
  return value >= least ? value : null;
}

const withGroupSize = (config: JobConfig, groupSize: number): JobConfig => ({
  ...config,
  batch: { ...config.batch, groupSize },
});

const withGroups = (config: JobConfig, groupsPerStep: number): JobConfig => ({
  ...config,
  batch: { ...config.batch, groupsPerStep },
});

/** Steps that are sampled at a time. */
const openSteps = ({ stalenessMax }: JobConfig): number => stalenessMax + 1;
const openBytes = (config: JobConfig): number => openSteps(config) * config.batch.groupsPerStep * groupBytesMax(config);

function isOfMessage(config: JobConfig): boolean {
  const bytes = groupBytesMax(config);
  return !isKnown(bytes) || bytes <= groupsMessageBytesMax;
}

function isOfStream(config: JobConfig): boolean {
  const bytes = openBytes(config);
  return !isKnown(bytes) || bytes <= streamBytesMax;
}

/** Sizes that must fit, so that no sampler makes what it cannot store. */
export const sizeRelations: readonly Relation[] = [
  {
    keys: ["batch.group_size", "sampling.max_new_tokens"],
    holds: isOfMessage,
    rule: (config) =>
      `{0} with {1} makes groups of up to ${formatSize(groupBytesMax(config))}, and one must fit into a message of ${formatSize(groupsMessageBytesMax)}`,
    fix: (config) => {
      const size = largestThatFits(config.batch.groupSize, 2, (value) => isOfMessage(withGroupSize(config, value)));
      return size === null
        ? "lower rollout.fan_out or sampling.max_new_tokens, or choose a task with shorter prompts"
        : `lower batch.group_size to ${size}, or rollout.fan_out or sampling.max_new_tokens`;
    },
  },
  {
    keys: ["batch.groups_per_step", "batch.group_size"],
    holds: isOfStream,
    rule: (config) =>
      `{0} with {1} makes up to ${formatSize(openBytes(config))} in the steps that are sampled at a time (${openSteps(config)}), and the groups stream holds ${formatSize(streamBytesMax)}`,
    fix: (config) => {
      const { groupsPerStep } = config.batch;
      const count = largestThatFits(groupsPerStep, 1, (value) => isOfStream(withGroups(config, value))) ?? 1;
      return `lower batch.groups_per_step to ${count}, or batch.group_size`;
    },
  },
];
