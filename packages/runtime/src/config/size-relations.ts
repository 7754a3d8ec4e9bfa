/** What fits: devices of one node into one replica, a group into the memory of who reads it, the groups that are sampled at a time into their stream. */
import { formatSize } from "@muster/base";
import { devicesMax, groupBytesMax, type JobConfig, piecedBytesMax, piecesMax } from "@muster/protocol";
import type { Relation } from "./relation.ts";

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

function isReadable(config: JobConfig): boolean {
  const bytes = groupBytesMax(config);
  return !isKnown(bytes) || bytes <= piecedBytesMax;
}

function isOfPieces(config: JobConfig): boolean {
  const bytes = Math.min(groupBytesMax(config), piecedBytesMax);
  return !isKnown(bytes) || bytes <= piecesMax * config.limits.messageBytes;
}

function isOfStream(config: JobConfig): boolean {
  const bytes = openBytes(config);
  return !isKnown(bytes) || bytes <= config.limits.groupsBytes;
}

/** Sizes that must fit, so that no sampler makes what it cannot store. */
export const sizeRelations: readonly Relation[] = [
  {
    keys: ["devices.rollout", "rollout.ranks"],
    holds: ({ devices, rollout }) => (devices?.rollout ?? 0) * rollout.ranks <= devicesMax,
    rule: `{0} times {1} must not be over ${devicesMax}: a replica gets its devices from one node, and none has more`,
    fix: "lower devices.rollout or rollout.ranks",
  },
  {
    keys: ["batch.group_size", "sampling.max_new_tokens"],
    holds: isReadable,
    rule: (config) =>
      `{0} with {1} makes groups of up to ${formatSize(groupBytesMax(config))}, and whoever reads one holds it in memory: at most ${formatSize(piecedBytesMax)}`,
    fix: (config) => {
      const size = largestThatFits(config.batch.groupSize, 2, (value) => isReadable(withGroupSize(config, value)));
      return size === null
        ? "lower rollout.fan_out or sampling.max_new_tokens, or choose a task with shorter prompts"
        : `lower batch.group_size to ${size}, or rollout.fan_out or sampling.max_new_tokens`;
    },
  },
  {
    keys: ["limits.message_bytes", "batch.group_size"],
    holds: isOfPieces,
    rule: (config) =>
      `{0} cuts groups of up to ${formatSize(groupBytesMax(config))} with {1} into more than ${piecesMax} pieces`,
    fix: (config) => `raise limits.message_bytes to ${Math.ceil(groupBytesMax(config) / piecesMax / 1024)}KiB`,
  },
  {
    keys: ["batch.groups_per_step", "limits.groups_bytes"],
    holds: isOfStream,
    rule: (config) =>
      `{0} makes up to ${formatSize(openBytes(config))} in the steps that are sampled at a time (${openSteps(config)}), and the groups stream holds {1}`,
    fix: (config) => {
      const { groupsPerStep } = config.batch;
      const count = largestThatFits(groupsPerStep, 1, (value) => isOfStream(withGroups(config, value)));
      const wanted = Math.ceil(openBytes(config) / 1024 ** 2);
      const raise = `raise limits.groups_bytes to ${wanted}MiB where the broker has that much room`;
      if (count !== null) return `${raise}, or lower batch.groups_per_step to ${count}`;
      return `${raise}: not even one group fits`;
    },
  },
];
