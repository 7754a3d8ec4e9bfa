/** Bugs of those who write one checkpoint together, and of who tells them to. */
import type { CheckpointContent } from "@muster/checkpoint";
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import { type Canary, repeated } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

/** Three actors, each with a shard of every checkpoint; `shards` 1 for whole ones. */
function withShards(scenario: Scenario, shards = 3): Scenario {
  const { config } = scenario;
  const { quorum: _, ...checkpoint } = config.checkpoint;
  return {
    ...scenario,
    config: { ...config, replicas: { ...config.replicas, checkpoint: 3 }, checkpoint: { ...checkpoint, shards } },
  };
}

/** A set whose shards that nobody has reported count as durable, too. */
function withDone(state: ControllerState, more: readonly number[]): ControllerState {
  const { set } = state.checkpoints;
  if (!set || more.length === 0) return state;
  const done = [...new Set([...set.done, ...more])].sort((a, b) => a - b);
  return { ...state, checkpoints: { ...state.checkpoints, set: { ...set, done } } };
}

/** Shards that were the work of somebody who is gone now. */
function shardsOfTheDead(after: ControllerState, before: ControllerState): readonly number[] {
  return Object.values(before.members).flatMap(({ id, incarnation, order }) =>
    order?.kind === "checkpoint.save" && after.members[id]?.incarnation !== incarnation ? (order.write ?? []) : [],
  );
}

/** A crash of a checkpoint actor in one of its first writes, then at many others. */
const deaths = (scenario: Scenario) => [
  ...Array.from({ length: 12 }, (_, i) => ({
    kind: "failpoint" as const,
    point: "checkpoint.fs-sync",
    nth: 1 + 7 * i,
    action: { type: "crash" as const },
  })),
  ...repeated(scenario, 20_000, (atMs) => ({ kind: "kill", atMs, node: "checkpoint-2", isSeen: true })),
];

const isReport = ({ type }: ControllerEvent): boolean => type === "shards.saved";

type Sections = CheckpointContent["sections"];

/** The bytes as they are now: those of a version in memory go with it. */
function copied(sections: Sections): Promise<Sections> {
  return Promise.all(
    sections.map(async (section) => {
      const bytes = new Uint8Array(section.bytes.length);
      if (section.bytes instanceof Uint8Array) bytes.set(section.bytes);
      else await section.bytes.copyTo(bytes, 0);
      return { ...section, bytes };
    }),
  );
}

/** Canaries in the writing of shards. */
export const shardCanaries: readonly Canary[] = [
  logicBug("sealed-before-all-shards", "a checkpoint is sealed when the first of its shards is durable", {
    profile: "storage",
    seedsMax: 20,
    shape: withShards,
    line: { keeps: (after, _, event) => (isReport(event) ? withDone(after, [1, 2, 3]) : after) },
  }),
  logicBug("shard-of-the-dead-counted", "the shard of a writer that died counts as durable", {
    profile: "storage",
    seedsMax: 20,
    shape: withShards,
    stage: deaths,
    line: { keeps: (after, before) => withDone(after, shardsOfTheDead(after, before)) },
  }),
  {
    name: "shards-of-two-versions",
    says: "a writer of shards goes on with the bytes of the version that it wrote last",
    profile: "storage",
    seedsMax: 20,
    shape: withShards,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        checkpointStore: async (options) => {
          const store = await ports.checkpointStore(options);
          let last: Sections | null = null;
          const saveShards: typeof store.saveShards = async (content, shards, signal) => {
            const sections = await copied(content.sections);
            const older = sections.map((section, i) => ({ ...section, bytes: last?.[i]?.bytes ?? section.bytes }));
            last = sections;
            return await store.saveShards({ ...content, sections: older }, shards, signal);
          };
          return { ...store, saveShards };
        },
      }),
    }),
  },
  {
    name: "leftovers-stay",
    says: "what checkpoint actors that died have left in the folder is never swept",
    profile: "storage",
    seedsMax: 20,
    shape: (scenario) => {
      const { config, ...rest } = withShards(scenario, 1);
      // Swept after three times as long: jobs of minutes come to it.
      return { ...rest, config: { ...config, timing: { ...config.timing, checkpointMs: 3_000 } } };
    },
    stage: deaths,
    make: () => ({ sweeps: false }),
  },
];
