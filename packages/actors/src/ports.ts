/**
 * What the handlers of replicas work on: engines, data plane and disk. A process has those of its host; the simulator gives its own,
 * and with them runs the same handlers.
 */
import { setImmediate } from "node:timers/promises";
import type { Logger, SectionBytes } from "@muster/base";
import {
  type CheckpointInfo,
  type CheckpointStore,
  type ChooseParts,
  type HashPieces,
  type LoadedCheckpoint,
  loadCheckpoint,
  loadCheckpointParts,
  openCheckpointStore,
  type ReadParts,
  verifyCheckpoint,
} from "@muster/checkpoint";
import {
  type DataPlaneActivity,
  type DataPlaneListener,
  type DataPlaneUsage,
  dataPlaneActivity,
  dataPlaneUsage,
  digestsOf,
  type GradientMesh,
  hasShaInstructions,
  hearDataPlane,
  mapVersion,
  type NetworkTimes,
  openGradientMesh,
  openVersionStore,
  pullShards,
  pullVersion,
  setNetworkTimes,
  sha256Each,
  type VersionStore,
} from "@muster/collectives";
import { needsOfJob, openTask, type Task } from "@muster/data";
import {
  type AgentOptions,
  type EngineDescription,
  type EngineRegistry,
  type EngineRole,
  type GenerateFunction,
  openModuleGenerate,
  openReferenceOf,
  openRewardOf,
  type PolicyEngine,
  type RankCut,
  type RankShards,
  type RankTraining,
  type ReplicaRank,
  type Reward,
  type RolloutEngine,
  sectionPieceMax,
} from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { makeOwnFolderSync } from "@muster/runtime";
import { readTable, type TableSummary, type TableText, writeTable } from "@muster/tensors";
import { errors } from "./errors.ts";

/** The ports of one replica to what computes, moves and keeps weights. */
export interface Ports {
  /** Build of this replica's engine; replicas of one role share one. */
  readonly engineBuild: string;
  /** Most bytes of a section that are held in one array: larger ones are held in pieces of so many, a multiple of 256 KiB. */
  readonly pieceMax: number;
  /** @param training - What this process does with its shard, where there is a {@link trainerCut}. */
  policyEngine(config: JobConfig, training?: RankTraining): Promise<PolicyEngine>;
  /** @param shards - How this process takes its part of a version, where there is a {@link rankCut}. */
  rolloutEngine(config: JobConfig, shards?: RankShards): Promise<RolloutEngine>;
  /** How the processes of a sampler have the model, where each of them takes its own part; `null` where rank 0 takes it whole. */
  rankCut(config: JobConfig): RankCut | null;
  /** How the processes of each trainer of a job have the model, where each of them has a shard; `null` where rank 0 has it whole. */
  trainerCut(config: JobConfig): RankCut | null;
  /** The model of a job as its trainers have it, or its samplers, and the build of their engine. */
  model(
    config: JobConfig,
    role?: EngineRole,
  ): Pick<EngineDescription, "tensors" | "modelConfig" | "conversion"> & { readonly build: string };
  /** The prompts of a job and its tokenizer. */
  task(config: JobConfig): Promise<Task>;
  /** The reward of a job: built in, a module, a program, a service or a worker. */
  reward(config: JobConfig, logger: Logger): Promise<Reward>;
  /** The generate function of a job: of its module, or its agent; `null` for the engine's own way. */
  generate(config: JobConfig, logger: Logger): Promise<GenerateFunction | null>;
  /** Digests of sections, as the data plane computes them, and off the JavaScript thread. Their bytes are left alone until then. */
  digests(sections: readonly SectionBytes[], signal: AbortSignal): Promise<readonly string[]>;
  /** Writes a table of tensors. */
  table(tensors: EngineDescription["tensors"]): Promise<TableText>;
  /** Reads a table of tensors that was named so. @returns Its rows, or what is wrong with it. */
  readTable(text: Uint8Array, named: TableSummary): Promise<EngineDescription["tensors"] | string>;
  /** What the data plane has in use now. */
  usage(): DataPlaneUsage;
  /** What the data plane has done so far. */
  activity(): DataPlaneActivity;
  /** Sets the times of the data plane, and who hears of what happens in it: a process has one listener. */
  network(times: NetworkTimes, heard?: DataPlaneListener | null): void;
  /** Bytes of memory that this process can still get, within the limit of its container. */
  availableMemory(): number;
  versionStore(options: Parameters<typeof openVersionStore>[0]): Promise<VersionStore>;
  gradientMesh(options: Parameters<typeof openGradientMesh>[0]): Promise<GradientMesh>;
  pull: typeof pullVersion;
  map: typeof mapVersion;
  pullShards: typeof pullShards;
  checkpointStore(options: Parameters<typeof openCheckpointStore>[0]): Promise<CheckpointStore>;
  loadCheckpoint(path: string, signal?: AbortSignal): Promise<LoadedCheckpoint>;
  /** Reads what is wanted of a checkpoint. The caller compares digests. */
  loadCheckpointParts(path: string, choose: ChooseParts, signal: AbortSignal): Promise<ReadParts>;
  /** Reads a checkpoint through and checks every digest, in the memory of a few pieces. */
  verifyCheckpoint(path: string, signal: AbortSignal): Promise<CheckpointInfo>;
}

/** What some jobs need besides. */
interface HostOptions {
  /** Of a replica of several processes: its rank 0. */
  readonly rank?: ReplicaRank | undefined;
  /** Starts agents; needed for jobs that have one. */
  readonly agents?: OpenAgents;
  /** Environment that modules, and the workers of a reward and a reference, inherit; default nothing. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Engines, the native data plane and the disk of this host.
 *
 * @param engineBuild - With which this replica registered; an engine of another one is not opened.
 */
export const hostPorts = (
  engines: EngineRegistry,
  engineBuild: string,
  { rank, agents = noAgents, env = {} }: HostOptions = {},
): Ports => ({
  engineBuild,
  pieceMax: sectionPieceMax,
  policyEngine: async (config, training) => {
    checkBuild(engines, config.engine.policy.adapter, engineBuild);
    // One process has no room for what others are to have, and could agree with nobody.
    const size = config.processes?.policy ?? 1;
    if (size > 1 && !rank) throw errors.TrainerAlone({ size });
    const needs = needsOfJob(config);
    const engine = await engines.openPolicy(config, needs, rank && { rank, ...(training ? { training } : {}) });
    return await openReferenceOf(config, engine, env);
  },
  rolloutEngine: async (config, shards) => {
    checkBuild(engines, config.engine.rollout.adapter, engineBuild);
    return await engines.openRollout(config, needsOfJob(config), rank && { rank, ...(shards ? { shards } : {}) });
  },
  // A sampler that no node started is alone, and takes all of a version.
  rankCut: (config) => (rank ? engines.rankCutOf("rollout", config, needsOfJob(config)) : null),
  trainerCut: trainerCutsOf(engines),
  model: (config, role = "policy") => ({
    ...engines.describe(role, config.engine, needsOfJob(config)),
    build: engines.of(config.engine[role].adapter).build(),
  }),
  task: openTask,
  reward: (config, logger) => openRewardOf({ config, env, logger }),
  generate: async (config, logger) => {
    const { agent, generate } = config.rollout;
    if (agent) return await agents(agent, logger);
    return generate === null ? null : await openModuleGenerate(generate, { config, env, logger });
  },
  digests: digestsOf,
  table: (tensors) => writeTable(tensors, () => setImmediate()),
  readTable: (text, named) => readTable(text, named, () => setImmediate()),
  usage: dataPlaneUsage,
  activity: dataPlaneActivity,
  network: (times, heard = null) => {
    setNetworkTimes(times);
    hearDataPlane(heard);
  },
  availableMemory: () => process.availableMemory(),
  versionStore: async (options) => {
    makeOwnFolderSync(options.socketDir);
    return await openVersionStore(options);
  },
  gradientMesh: openGradientMesh,
  pull: pullVersion,
  map: mapVersion,
  pullShards,
  checkpointStore: (options) => openCheckpointStore({ ...options, hashPieces: hashOfHost() }),
  loadCheckpoint: (path, signal) => loadCheckpoint(path, { hashPieces: hashOfHost(), ...(signal ? { signal } : {}) }),
  loadCheckpointParts: (path, choose, signal) => loadCheckpointParts(path, choose, { signal }),
  verifyCheckpoint: (path, signal) => verifyCheckpoint(path, { signal, hashPieces: hashOfHost() }),
});

/** The data plane hashes pieces of checkpoints in less time than node:crypto, where the processor has instructions for it. */
const hashOfHost = (): HashPieces | undefined => (hasShaInstructions() ? sha256Each : undefined);

/** Asked for with every version, and the same for the whole life of a replica: of a model of many tensors it takes seconds to work out. */
function trainerCutsOf(engines: EngineRegistry): Ports["trainerCut"] {
  const known = new WeakMap<JobConfig, RankCut | null>();
  return (config) => {
    const cut = known.get(config) ?? engines.rankCutOf("policy", config, needsOfJob(config));
    known.set(config, cut);
    return cut;
  };
}

/** How the agents of a job are opened: their endpoints are in a package that this one does not know. */
export type OpenAgents = (agent: AgentOptions, logger: Logger) => Promise<GenerateFunction>;

const noAgents: OpenAgents = ({ command }) => Promise.reject(errors.NoAgents({ command }));

function checkBuild(engines: EngineRegistry, adapter: string, registered: string): void {
  const build = engines.of(adapter).build();
  if (build !== registered) throw errors.EngineBuildDiffers({ adapter, build, registered });
}
