/** The ports of one simulated process: production's handlers reach the simulated engines, data plane and disk through them. */
import type { Ports } from "@muster/actors";
import { RankTrainer } from "@muster/actors/internal";
import { mixSeed, silentLogger } from "@muster/base";
import { loadCheckpoint, loadCheckpointParts, openCheckpointStore, verifyCheckpoint } from "@muster/checkpoint";
import { openTask } from "@muster/data";
import type { PolicyEngine, RankCut, RankTraining } from "@muster/engine";
import { copyOf } from "@muster/engine/internal";
import type { JobConfig } from "@muster/protocol";
import { readTable, writeTable } from "@muster/tensors";
import { hashOf, tokensHash } from "../engine/arithmetic.ts";
import { shapeOf, simBuild } from "../engine/info.ts";
import { type PolicyEngineModel, type PolicyEngineObserver, SimPolicyEngine } from "../engine/sim-policy-engine.ts";
import { simReward } from "../engine/sim-reward.ts";
import { type RolloutEngineObserver, SimRolloutEngine } from "../engine/sim-rollout-engine.ts";
import type { Failpoints } from "../faults/failpoints.ts";
import type { MeshPlane } from "../plane/mesh-plane.ts";
import type { SimDisk } from "../plane/sim-disk.ts";
import type { VersionPlane } from "../plane/version-plane.ts";
import { trainerCutOf } from "../ranks/cut.ts";
import { type RankPlace, ShardedPolicyEngine } from "../ranks/sharded-policy-engine.ts";
import type { SimProcess } from "../world/process.ts";
import type { WorkModel } from "./scenario.ts";

/** What all processes of a run share behind their ports. */
export interface Behind {
  readonly work: WorkModel;
  readonly failpoints: Failpoints;
  readonly digest: (bytes: Uint8Array) => string;
  readonly versions: VersionPlane;
  readonly meshes: MeshPlane;
  readonly disk: SimDisk;
  /** Age of a leftover on the disk from which it is taken for that of a writer that died. */
  readonly graceMs: number;
  /** Most bytes of one array: in some jobs so few that sections come in pieces. */
  readonly pieceMax: number;
  readonly observer: PolicyEngineObserver & RolloutEngineObserver;
  /** True while this process computes wrong bits. */
  readonly corrupts: (process: SimProcess) => boolean;
  /** Ranks 1, 2 … of a replica of several processes, by its rank 0. */
  readonly othersOf: (process: SimProcess) => readonly SimProcess[];
  /** The ports of another process of the same replica. */
  readonly portsOf: (process: SimProcess) => Ports;
  /** What a rank is given in place of this; by a deliberate bug, another one. */
  readonly trainingOf: (training: RankTraining, process: SimProcess) => RankTraining;
  readonly dataKey: Uint8Array;
}

const noEvents = {
  retry: 0,
  "fail-over": 0,
  stall: 0,
  refused: 0,
  evicted: 0,
  "host-lost": 0,
  "delta-lost": 0,
};

/** Makes the ports of one process. */
export function portsOf(process: SimProcess, behind: Behind): Ports {
  const { work, failpoints, versions, meshes, disk, observer } = behind;
  const fs = disk.fsOf(process);
  const given = { process, failpoints, observer };
  return {
    engineBuild: simBuild,
    pieceMax: behind.pieceMax,
    policyEngine: async (config, training) => {
      const cut = trainerCutOf(config);
      if (cut && training) return shardedEngine(process, behind, { config, cut, training });
      return new SimPolicyEngine({ ...given, shape: config.model, model: modelOf(behind, config) });
    },
    task: openTask,
    rolloutEngine: async ({ model: shape }) =>
      new SimRolloutEngine({
        ...given,
        shape,
        model: {
          swapMs: work.swapMs,
          responseMs: (seed) => work.responseMs * tailOf(shareOf(seed, 2)),
          kills: (promptIds) => shareOf(tokensHash(promptIds), 3) < work.killerRate,
          crashes: (promptIds) => shareOf(tokensHash(promptIds), 5) < 0.5,
          hangs: (promptIds) => shareOf(tokensHash(promptIds), 4) < (work.hangerRate ?? 0),
        },
      }),
    rankCut: () => null,
    trainerCut: trainerCutOf,
    model: ({ model }) => ({ tensors: shapeOf(model).tensors, modelConfig: { model_type: "sim" }, build: simBuild }),
    reward: async () => simReward(process, failpoints, work),
    generate: async () => null,
    table: (tensors) => writeTable(tensors, async () => {}),
    readTable: (text, named) => readTable(text, named, async () => {}),
    digests: async (sections) => sections.map((one) => behind.digest(one instanceof Uint8Array ? one : copyOf(one))),
    availableMemory: () => behind.work.memoryBytes ?? Number.MAX_SAFE_INTEGER,
    usage: () => ({ connections: 0, mappedBytes: 0 }),
    activity: () => ({ opened: 0, accepted: 0, events: noEvents, peers: [] }),
    network: () => {},
    versionStore: (options) => versions.openStore(process, options),
    gradientMesh: (options) => meshes.open(process, options),
    pull: (options) => versions.pull(process, options),
    map: (options) => versions.map(process, options),
    pullShards: (options) => versions.pullShards(process, options),
    checkpointStore: (options) => openCheckpointStore({ ...options, fs, graceMs: behind.graceMs }),
    loadCheckpoint: async (path) => {
      await failpoints.pass(process, `${process.role}.checkpoint-load`);
      return await loadCheckpoint(path, { fs });
    },
    loadCheckpointParts: async (path, choose) => {
      await failpoints.pass(process, `${process.role}.checkpoint-load`);
      return await loadCheckpointParts(path, choose, { fs });
    },
    verifyCheckpoint: (path) => verifyCheckpoint(path, { fs }),
  };
}

/** How trainers of a job compute, and what goes wrong in it. */
function modelOf({ work, corrupts }: Behind, { agreement }: JobConfig): PolicyEngineModel {
  return {
    ...work,
    overflows: ({ tokens }) => shareOf(tokensHash(tokens), 1) < work.overflowRate,
    ends: ({ tokens }) => shareOf(tokensHash(tokens), 5) < (work.trainerKillerRate ?? 0),
    crashes: ({ tokens }) => shareOf(tokensHash(tokens), 7) < 0.5,
    corrupts,
    drifts: ({ pid }, weights) =>
      shareOf(mixSeed(pid, hashOf(new Uint8Array(weights.buffer))), 6) < (work.driftRate ?? 0),
    drifting: agreement === "weights" ? "optimizer" : "all",
  };
}

/** The engine of a trainer of several processes: those beside this one do what rank 0 says, each with ports of its own. */
function shardedEngine(
  process: SimProcess,
  behind: Behind,
  { config, cut, training }: { readonly config: JobConfig; readonly cut: RankCut; readonly training: RankTraining },
): PolicyEngine {
  const { dataKey, failpoints, observer } = behind;
  const others = behind.othersOf(process).map((other, i): RankPlace => {
    const own = { ports: behind.portsOf(other), clock: other.clock, logger: silentLogger };
    const trainer = new RankTrainer({
      ...own,
      replica: process.node,
      rank: i + 1,
      cut,
      job: config.job,
      dataKey,
      config,
    });
    return { process: other, training: behind.trainingOf(trainer, other) };
  });
  const own = { process, training: behind.trainingOf(training, process) };
  return new ShardedPolicyEngine({
    ...{ own, others, cut, shape: config.model, failpoints, observer },
    model: modelOf(behind, config),
  });
}

/** A share in [0, 1) that belongs to a number. */
function shareOf(value: number, salt: number): number {
  return mixSeed(value, salt) / 2 ** 32;
}

/** From 0.4 to about 6, mean near 1: most responses are quick, a few take long. */
function tailOf(share: number): number {
  return Math.min(6, 0.4 - 0.6 * Math.log(1 - share));
}
