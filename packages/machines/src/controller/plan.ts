/** What the controller decides by: the part of the job configuration that its decisions depend on. */
import {
  groupBytesMax,
  isSupervised,
  type JobConfig,
  minibatchesMax,
  perRole,
  type ReplicaRole,
  trainingDefaults,
  traitsOf,
} from "@muster/protocol";

/** What the batch of a step must fit, besides what the controller needs itself. */
export interface BatchBounds {
  readonly minibatches: number;
  /** 1 for an algorithm without an importance ratio. */
  readonly minibatchesMax: number;
  /** Groups that a step trains on, at most; 0 for all. */
  readonly trainGroups: number;
  /** Bytes of a group, at most, and of the groups stream. */
  readonly groupBytes: number;
  readonly streamBytes: number;
}

/** Everything a decision may depend on besides the state. */
export interface ControllerPlan {
  readonly seed: number;
  readonly steps: number;
  readonly stalenessMax: number;
  /** Settings of the learning rate that the job began with: what changes of them are told beside. Absent in journals of programs that knew no changes. */
  readonly settings?: Pick<JobConfig["optimizer"], "lr" | "lrWarmupSteps" | "lrFinalRatio" | "lrSchedule">;
  /** What a changed batch must fit. Absent in journals of programs that knew no such changes. */
  readonly batchBounds?: BatchBounds;
  /** What trainers must agree on. Absent in journals of programs that knew `state` only. */
  readonly agreement?: JobConfig["agreement"];
  readonly initReplicas: JobConfig["initReplicas"];
  readonly checkpointReplicas: number;
  /** Replicas that nodes run, until an operator says otherwise. */
  readonly replicas: JobConfig["replicas"];
  readonly minReplicas: JobConfig["minReplicas"];
  /** More policy replicas than this have nothing to do. */
  readonly microShards: number;
  readonly weights: JobConfig["weights"];
  readonly groupsPerStep: number;
  /** Trajectories of a group: samples times their fan-out. */
  readonly groupSize: number;
  /** Responses are given, not drawn: nobody judges them. Absent in all other jobs. */
  readonly isSupervised?: true;
  /** Tokens of a trajectory, at most. Absent in journals of programs that did not say it. */
  readonly maxContext?: number;
  readonly evalEverySteps: number;
  readonly evalPrompts: number;
  readonly checkpointEverySteps: number;
  /** Newest checkpoints that retention leaves. */
  readonly checkpointKeep: number;
  /** Hosts that must have a checkpoint before it counts; absent: one. */
  readonly checkpointQuorum?: number;
  /** Shards that actors write one checkpoint in together; absent: each writes a whole one. */
  readonly checkpointShards?: number;
  /** Folder of the job's checkpoints. Absent in journals of programs that did not say it. */
  readonly checkpointDirectory?: string;
  /** Steps after which checkpoint actors take the training state into memory anew; 0: never. */
  readonly memoryEvery: number;
  /** True when `data.tcp_host` names a network: rollout replicas then serve what they pulled from another host. */
  readonly rolloutsServe: boolean;
  /** Ranks of a rollout replica. */
  readonly rolloutRanks: number;
  /** Processes of a replica by role; absent where every replica is one. */
  readonly processes?: Readonly<Record<ReplicaRole, number>>;
  /** Devices of each process of a replica by role; absent in jobs that give none to any. */
  readonly devices?: Readonly<Record<ReplicaRole, number>>;
  readonly timing: Pick<
    JobConfig["timing"],
    | "gatherMs"
    | "commandMs"
    | "leaseMs"
    | "stepMs"
    | "meshMs"
    | "pullMs"
    | "checkpointMs"
    | "drainMs"
    | "joinMs"
    | "deadAfterMs"
  >;
  readonly health: Pick<JobConfig["health"], "readmitAfterMs" | "progressMs">;
  readonly failure: JobConfig["failure"];
  readonly limits: Pick<JobConfig["limits"], "stepAttemptsMax" | "leaseGroupsMax" | "leasesPerRollout" | "chunkGroups">;
}

/** Takes the plan out of a job configuration. Pure. */
export function planOf(config: JobConfig): ControllerPlan {
  const { gatherMs, commandMs, leaseMs, stepMs, meshMs, pullMs, checkpointMs, drainMs, joinMs, deadAfterMs } =
    config.timing;
  const { stepAttemptsMax, leaseGroupsMax, leasesPerRollout, chunkGroups } = config.limits;
  const { readmitAfterMs, progressMs } = config.health;
  return {
    seed: config.seed,
    steps: config.steps,
    stalenessMax: config.stalenessMax,
    settings: settingsOf(config),
    batchBounds: boundsOf(config),
    ...(config.agreement ? { agreement: config.agreement } : {}),
    initReplicas: config.initReplicas,
    checkpointReplicas: config.replicas.checkpoint,
    replicas: config.replicas,
    minReplicas: config.minReplicas,
    microShards: config.batch.microShards,
    weights: config.weights,
    groupsPerStep: config.batch.groupsPerStep,
    groupSize: config.batch.groupSize * config.rollout.fanOut,
    ...(isSupervised(config) ? { isSupervised: true } : {}),
    maxContext: config.model.maxContext,
    evalEverySteps: config.evaluation.everySteps,
    evalPrompts: config.evaluation.prompts,
    checkpointEverySteps: config.checkpoint.everySteps,
    checkpointKeep: config.checkpoint.keep,
    ...copiesOf(config),
    checkpointDirectory: config.checkpoint.directory,
    memoryEvery: config.checkpoint.memoryEvery,
    rolloutRanks: config.rollout.ranks,
    ...devicesOf(config),
    ...processesOf(config),
    rolloutsServe: config.data.tcpHost?.includes("/") ?? false,
    timing: { gatherMs, commandMs, leaseMs, stepMs, meshMs, pullMs, checkpointMs, drainMs, joinMs, deadAfterMs },
    health: { readmitAfterMs, progressMs },
    failure: config.failure,
    limits: { stepAttemptsMax, leaseGroupsMax, leasesPerRollout, chunkGroups },
  };
}

function settingsOf({ optimizer }: JobConfig): NonNullable<ControllerPlan["settings"]> {
  const { lr, lrWarmupSteps, lrFinalRatio, lrSchedule = "linear" } = optimizer;
  return { lr, lrWarmupSteps, lrFinalRatio, lrSchedule };
}

function boundsOf(config: JobConfig): BatchBounds {
  const { algorithm, trainGroups } = config.training ?? trainingDefaults;
  return {
    minibatches: config.batch.minibatches,
    minibatchesMax: algorithm === "rloo" ? 1 : minibatchesMax,
    trainGroups,
    groupBytes: groupBytesMax(config),
    streamBytes: config.limits.groupsBytes,
  };
}

function copiesOf({
  checkpoint: { quorum = 1, shards = 1 },
}: JobConfig): Pick<ControllerPlan, "checkpointQuorum" | "checkpointShards"> {
  return { ...(quorum > 1 ? { checkpointQuorum: quorum } : {}), ...(shards > 1 ? { checkpointShards: shards } : {}) };
}

function processesOf({ processes }: JobConfig): Pick<ControllerPlan, "processes"> {
  return processes && Object.values(processes).some((count) => count > 1) ? { processes } : {};
}

/** What each process gets: as much for each of its threads that are ranks. */
function devicesOf({ devices, rollout }: JobConfig): Pick<ControllerPlan, "devices"> {
  if (!devices || Object.values(devices).every((count) => count === 0)) return {};
  return { devices: perRole((role) => devices[role] * (traitsOf(role).hasRanks ? rollout.ranks : 1)) };
}
