/**
 * What the hands of replicas stand on: engines, data plane and disk. A process has those of its host; the simulator gives its own,
 * and with them runs these very hands.
 */

import { isAbsolute } from "node:path";
import { type CheckpointStore, type LoadedCheckpoint, loadCheckpoint, openCheckpointStore } from "@muster/checkpoint";
import {
  type DataPlaneUsage,
  dataPlaneUsage,
  digestOf,
  type GradientMesh,
  mapVersion,
  openGradientMesh,
  openVersionStore,
  pullShards,
  pullVersion,
  type VersionStore,
} from "@muster/collectives";
import {
  createEmbeddedPolicyEngine,
  createEmbeddedRolloutEngine,
  embeddedBuild,
  type GenerateFunction,
  loadGenerate,
  loadReward,
  type PolicyEngine,
  type Reward,
  type RolloutEngine,
  rewardOf,
} from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { makeOwnFolderSync } from "@muster/runtime";

/** The doors of one replica to what computes, moves and keeps weights. */
export interface Doors {
  /** Build of the engines; replicas of one job share one. */
  readonly engineBuild: string;
  policyEngine(options: { readonly model: JobConfig["model"] }): PolicyEngine;
  rolloutEngine(options: { readonly model: JobConfig["model"]; readonly ranks: number }): RolloutEngine;
  /** A built-in reward by name, or that of a module by absolute path. */
  reward(name: string): Promise<Reward>;
  /** The generate function of a module by absolute path. */
  generate(path: string): Promise<GenerateFunction>;
  /** Digest of a section, as the data plane computes it. */
  digest(bytes: Uint8Array): string;
  /** What the data plane has in use now. */
  usage(): DataPlaneUsage;
  /** Bytes of memory that this process can still get, within the limit of its container. */
  availableMemory(): number;
  versionStore(options: Parameters<typeof openVersionStore>[0]): Promise<VersionStore>;
  gradientMesh(options: Parameters<typeof openGradientMesh>[0]): Promise<GradientMesh>;
  pull: typeof pullVersion;
  map: typeof mapVersion;
  pullShards: typeof pullShards;
  checkpointStore(options: Parameters<typeof openCheckpointStore>[0]): Promise<CheckpointStore>;
  loadCheckpoint(path: string): Promise<LoadedCheckpoint>;
}

/** The embedded engine, the native data plane and the disk of this host. */
export const hostDoors: Doors = {
  engineBuild: embeddedBuild(),
  policyEngine: createEmbeddedPolicyEngine,
  rolloutEngine: createEmbeddedRolloutEngine,
  reward: async (name) => (isAbsolute(name) ? await loadReward(name) : rewardOf(name)),
  generate: loadGenerate,
  digest: digestOf,
  usage: dataPlaneUsage,
  availableMemory: () => process.availableMemory(),
  versionStore: async (options) => {
    makeOwnFolderSync(options.socketDir);
    return await openVersionStore(options);
  },
  gradientMesh: openGradientMesh,
  pull: pullVersion,
  map: mapVersion,
  pullShards,
  checkpointStore: openCheckpointStore,
  loadCheckpoint: (path) => loadCheckpoint(path),
};
