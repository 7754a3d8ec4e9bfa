/** Draws a scenario from a seed: the shape of the cluster, its time-outs, its work, and what goes wrong (swarm testing). */
import type { Random } from "@muster/base";
import { mixSeed, randomOf } from "@muster/base";
import { type JobConfig, perRole } from "@muster/protocol";
import { networkDefaults, samplesDefaults } from "@muster/protocol/internal";
import type { Scenario, WorkModel } from "../cluster/scenario.ts";
import { drawFaults } from "../faults/draw-faults.ts";
import { drawDevices, drawFleet, type FleetShape } from "../fleet/command.ts";
import { drawScript } from "../scripts/script-shape.ts";
import { crowdOf, crowdSizes } from "./draw-crowd.ts";
import { withDrift } from "./draw-drift.ts";
import { withDrawnStreams } from "./draw-streams.ts";
import { shippedConfig } from "./shipped.ts";

/** What kind of faults a seed draws from. */
export const profiles = [
  "quiet",
  "swarm",
  "kills",
  "broker",
  "llama3",
  "lease-broken",
  "fleet",
  "storage",
  "stragglers",
  "liars",
  "perjury",
  "thieves",
  "drift",
  "barriers",
  "crowd",
  "multitude",
] as const;

/** One of the {@link profiles}. */
export type Profile = (typeof profiles)[number];

/** True for the name of a profile. */
export function isProfile(name: string): name is Profile {
  return (profiles as readonly string[]).includes(name);
}

/** Share of the jobs in which is done about failures what is done unless a job says otherwise. */
const shippedShare = 0.6;

/** The simulated engines have no options. */
const simEngine = { adapter: "sim", options: {} };

/** Draws a scenario. Pure: the same seed and profile give the same one. */
export function drawScenario(seed: number, profile: Profile): Scenario {
  const random = randomOf(seed, 101);
  const drawn = drawConfig(seed, random);
  const usual = {
    ...drawWork(random, drawn.mode),
    ...drawRoom(randomOf(seed, 127)),
    ...drawTrainerKillers(profile, randomOf(seed, 131)),
  };
  const work = crowdSizes[profile] || profile === "barriers" ? soundWork(usual) : usual;
  const hanging = (work.hangerRate ?? 0) > 0 ? withHangs(drawn) : drawn;
  const stored = shapedFor(profile, hanging, randomOf(seed, 113));
  const kept = { ...stored, checkpoint: { ...stored.checkpoint, memoryEvery: drawMemory(randomOf(seed, 129)) } };
  const plain = withTrainerShards(profile, kept, randomOf(seed, 191));
  const { config, fleet } = profile === "fleet" ? fleetOf(seed, plain) : { config: plain, fleet: undefined };
  const spanMs = spanOf(config, work);
  // The script beside a job goes on for a time without faults, before the job ends.
  const safetyMs = profile === "quiet" ? 0 : Math.round(spanMs * (profile === "barriers" ? 0.4 : 1.5));
  const faults =
    profile === "quiet" ? [] : drawFaults({ seed, profile, config, fleet, safetyMs, random: randomOf(seed, 103) });
  const limitMs = safetyMs + 8 * spanMs + graceOf(config) + hangsOf(config, work);
  const controllers = drawControllers(profile, randomOf(seed, 105));
  const scenario: Scenario = {
    seed,
    profile,
    config,
    work,
    faults,
    safetyMs,
    limitMs,
    recordBytes: drawPartBytes(randomOf(seed, 111)),
    ...(controllers > 1 ? { controllers } : {}),
    ...(fleet ? { fleet } : {}),
    ...(profile === "barriers" ? { script: drawScript(randomOf(seed, 173), safetyMs) } : {}),
  };
  const streamed = withDrawnStreams(scenario, randomOf(seed, 139));
  return profile === "drift" ? withDrift(streamed, randomOf(seed, 151)) : streamed;
}

/** Nodes, in half of the jobs with devices; in a third of the jobs samplers are several processes. */
function fleetOf(seed: number, plain: JobConfig): { readonly config: JobConfig; readonly fleet: FleetShape } {
  const own = randomOf(seed, 157);
  const processes = { ...perRole(() => 1), rollout: 2 + own.below(3) };
  const config = own.next() < 0.33 ? { ...plain, processes } : plain;
  const drawn = { config, fleet: drawFleet(randomOf(seed, 107), config) };
  const random = randomOf(seed, 143);
  return random.next() < 0.5 ? drawDevices(random, drawn) : drawn;
}

/** What a profile wants of every job. */
function shapedFor(profile: Profile, config: JobConfig, random: Random): JobConfig {
  const members = crowdSizes[profile];
  if (members !== undefined) return crowdOf(config, members, random);
  // A job that outlives the script beside it.
  if (profile === "barriers") return besideScript(config);
  return profile === "storage" ? withCheckpoints(config, random) : config;
}

/** A job of many small steps: it is there for its controller, and outlives the script. */
function besideScript(config: JobConfig): JobConfig {
  return { ...config, steps: 16, batch: { ...config.batch, groupsPerStep: 2 } };
}

/** Work in which nothing is wrong: in a large job as much would be as ends it by the shipped ceilings. */
function soundWork(work: WorkModel): WorkModel {
  return { ...work, poisonRate: 0, overflowRate: 0, killerRate: 0, hangerRate: 0, trainerKillerRate: 0 };
}

/** Checkpoints so often that there is more than one most of the time. */
function withCheckpoints(config: JobConfig, random: Random): JobConfig {
  const { replicas, checkpoint, seed } = config;
  const everySteps = between(random, 1, 2);
  const shards = between(randomOf(seed, 179), 1, 3);
  const savers = Math.max(shards, replicas.checkpoint);
  if (shards > 1)
    return {
      ...config,
      replicas: { ...replicas, checkpoint: savers },
      checkpoint: { ...checkpoint, everySteps, shards },
    };
  // In half of the jobs that have several of them a checkpoint counts on two hosts only.
  const quorum = savers > 1 && randomOf(seed, 163).next() < 0.5 ? { quorum: 2 } : {};
  return {
    ...config,
    replicas: { ...replicas, checkpoint: savers },
    checkpoint: { ...checkpoint, everySteps, ...quorum },
  };
}

function drawCheckpoint(random: Random): JobConfig["checkpoint"] {
  const [everySteps, keep] = [between(random, 0, 3), between(random, 1, 3)];
  return { everySteps, keep, directory: "/checkpoints", memoryEvery: 0 };
}

/** In half of the jobs checkpoint actors keep training state in memory, mostly of every step. */
function drawMemory(random: Random): number {
  return random.next() < 0.5 ? 0 : (([1, 1, 2, 3] as const)[random.below(4)] ?? 1);
}

/** On few hosts there is no room for it. */
function drawRoom(random: Random): Pick<WorkModel, "memoryBytes"> {
  return random.next() < 0.1 ? { memoryBytes: 64 } : {};
}

/** In few jobs some samples end whoever trains on them. */
function drawTrainerKillers(profile: Profile, random: Random): Pick<WorkModel, "trainerKillerRate"> {
  const isThere = profile !== "stragglers" && random.next() < (profile === "fleet" ? 0.2 : 0.06);
  return isThere ? { trainerKillerRate: 0.002 + 0.008 * random.next() } : {};
}

/** In which share of the jobs of a profile each trainer is several processes, with a shard of the training state each. */
const shardedShares: Partial<Record<Profile, number>> = { swarm: 0.04, storage: 0.25 };

function withTrainerShards(profile: Profile, config: JobConfig, random: Random): JobConfig {
  return random.next() < (shardedShares[profile] ?? 0) ? withTrainersOf(config, between(random, 2, 3)) : config;
}

/** The same job with trainers of so many processes. No process has a state to keep in memory then. */
export function withTrainersOf(config: JobConfig, policy: number): JobConfig {
  const processes = { ...perRole(() => 1), policy };
  return { ...config, processes, checkpoint: { ...config.checkpoint, memoryEvery: 0 } };
}

function drawControllers(profile: Profile, random: Random): number {
  if (profile === "lease-broken") return 2;
  return profile === "swarm" && random.next() < 0.1 ? between(random, 2, 3) : 1;
}

/** Mostly few, sometimes many. */
function fewOrMany(random: Random, few: number, many: number): number {
  return between(random, 1, random.next() < 0.8 ? few : many);
}

function between(random: Random, from: number, to: number): number {
  return from + random.below(to - from + 1);
}

/** When somebody counts as hanging, and a job as standing still. */
const health: JobConfig["health"] = {
  firstWaitMs: 60_000,
  intervalMs: 5_000,
  timeoutMs: 2_000,
  failureThreshold: 3,
  phi: 8,
  missedBeats: 5,
  probeTimeoutMs: 1_000,
  hungMinMs: 15_000,
  hungMaxMs: 30_000,
  graceMs: 60_000,
  readmitAfterMs: 1_000,
  progressMs: 120_000,
};

function drawConfig(seed: number, random: Random): JobConfig {
  const stalenessMax = random.next() < 0.4 ? 0 : between(random, 1, 3);
  const policy = fewOrMany(random, 5, 8);
  const rollout = fewOrMany(random, 6, 16);
  const groupsPerStep = between(random, 2, 10);
  return {
    job: "sim",
    seed: mixSeed(seed, 7) >>> 1,
    steps: between(random, 4, 12),
    mode: stalenessMax === 0 ? "sync" : "async",
    stalenessMax,
    replicas: { ...perRole(() => 0), policy, rollout, checkpoint: between(random, 0, 3) },
    initReplicas: { policy: between(random, 1, policy), rollout: between(random, 1, rollout) },
    minReplicas: { policy: 1, rollout: 1 },
    task: { name: "addition", reward: "sim" },
    rollout: { generate: null, fanOut: 1, ranks: 1 },
    weights: { kind: "seed", seed: mixSeed(seed, 8) >>> 1 },
    model: { vocab: 13, maxContext: 12 },
    engine: { policy: simEngine, rollout: simEngine },
    batch: {
      groupsPerStep,
      groupSize: between(random, 2, 4),
      minibatches: random.next() < 0.3 ? Math.min(2, groupsPerStep) : 1,
      microShards: Math.max(policy, between(random, 2, 6)),
    },
    sampling: { temperature: 1, maxNewTokens: 5 },
    loss: { clipLow: 0.2, clipHigh: 0.28 },
    optimizer: {
      lr: 0.01,
      lrWarmupSteps: 2,
      lrFinalRatio: 1,
      beta1: 0.9,
      beta2: 0.99,
      epsilon: 1e-8,
      weightDecay: 0,
      clipNorm: 1,
    },
    evaluation:
      random.next() < 0.5 ? { everySteps: 0, prompts: 0 } : { everySteps: between(random, 1, 4), prompts: 100 },
    checkpoint: drawCheckpoint(random),
    timing: drawTiming(random),
    health,
    limits: {
      stepAttemptsMax: 64,
      leaseGroupsMax: between(random, 2, 8),
      leasesPerRollout: between(random, 1, 3),
      chunkGroups: between(random, 1, 2),
      messageBytes: drawMessageBytes(randomOf(seed, 141)),
      groupsBytes: 2 * 1024 ** 3,
      mailboxMax: 2_000,
      outboxMax: 2_000,
      snapshotRecords: drawSnapshotRecords(randomOf(seed, 109)),
    },
    failure: drawFailure(randomOf(seed, 115), stalenessMax === 0 ? 256 : between(random, 3, 6)),
    network: networkDefaults,
    // Nobody reads them there, and nothing is decided by them.
    samples: { ...samplesDefaults, groups: 0 },
    data: dataOf(between(random, 2, 4)),
  };
}

/**
 * In most jobs so few that there are many snapshots, in some none. Not fewer: on a slow network a controller that has time for nothing else
 * loses its replicas.
 */
function drawSnapshotRecords(random: Random): number {
  return random.next() < 0.2 ? 10_000 : between(random, 15, random.next() < 0.5 ? 25 : 80);
}

/** In a third of the jobs groups come in pieces, some of them in many. */
function drawMessageBytes(random: Random): number {
  return random.next() < 0.33 ? between(random, 60, 900) : 512 * 1024;
}

/** In most jobs a snapshot takes several records. */
function drawPartBytes(random: Random): number {
  return [12_000, 24_000, 768 * 1024][random.below(3)] ?? 12_000;
}

/** In most jobs what is shipped; a few more attempts there would hide who is blamed for what. */
function drawFailure(random: Random, attempts: number): JobConfig["failure"] {
  return random.next() < shippedShare ? shippedConfig().failure : failureOf(attempts);
}

/** In sync mode nothing but poison may decide what is trained, or the run could not equal its quiet one: attempts are many there. */
function failureOf(attempts: number): JobConfig["failure"] {
  const isolate = { action: "isolate", attempts: 1, backoffMs: 0 } as const;
  const quarantine = { action: "quarantine", attempts, backoffMs: 0 } as const;
  return {
    failFast: false,
    cordonOnSigns: true,
    abortShareMax: 1,
    abortWindow: 1_024,
    sameErrorMax: 0,
    atCeiling: "alarm",
    transport: isolate,
    timeout: isolate,
    userError: isolate,
    engineCrash: quarantine,
    oom: quarantine,
    nonFinite: { action: "quarantine", attempts: 3, backoffMs: 0 },
    checkpointIo: { action: "retry", attempts: 1, backoffMs: 1_000 },
  };
}

/** In half of the jobs rollout replicas serve what they pulled, so that chains form. */
function dataOf(slots: number): JobConfig["data"] {
  const tcpHost = slots % 2 === 0 ? "10.0.0.0/8" : null;
  return { socketDirectory: "/sockets", tcpHost, slots, delta: "auto", deltaAnchorEvery: 25, deltaKeep: 4 };
}

function drawTiming(random: Random): JobConfig["timing"] {
  const scale = [0.5, 1, 1, 2][random.below(4)] ?? 1;
  const ms = (value: number): number => Math.round(value * scale);
  return {
    heartbeatIntervalMs: 1_000,
    suspectAfterMs: ms(5_000),
    deadAfterMs: ms(10_000),
    gatherMs: 300_000,
    commandMs: ms(5_000),
    leaseMs: ms(60_000),
    saveMs: ms(1_000),
    stepMs: ms(60_000),
    collectiveMs: ms(30_000),
    meshMs: ms(10_000),
    pullMs: ms(20_000),
    checkpointMs: ms(60_000),
    rewardMs: ms(5_000),
    generateMs: ms(20_000),
    drainMs: ms(30_000),
    joinMs: ms(1_000),
    tickMs: 250,
  };
}

function drawWork(random: Random, mode: JobConfig["mode"]): WorkModel {
  return {
    initializeMs: 1_000 + random.below(4_000),
    shardMs: 200 + random.below(800),
    stageMs: 50 + random.below(200),
    responseMs: 1_000 + random.below(4_000),
    swapMs: 20 + random.below(200),
    judgeMs: random.next() < 0.5 ? 0 : 10 + random.below(200),
    poisonRate: random.next() < 0.5 ? 0 : random.next() * 0.05,
    overflowRate: random.next() < 0.15 ? 0.01 : 0,
    killerRate: mode === "async" && random.next() < 0.15 ? 0.02 : 0,
    ...(mode === "async" && random.next() < 0.15 ? { hangerRate: 0.02 } : {}),
  };
}

/** The same scenario with prompts that hang their holders, given up after three. */
export function withHangers(scenario: Scenario, hangerRate: number): Scenario {
  const { failure } = scenario.config;
  const drawn = { ...scenario.config, failure: { ...failure, engineCrash: { ...failure.engineCrash, attempts: 3 } } };
  const [config, work] = [withHangs(drawn), { ...scenario.work, hangerRate }];
  return { ...scenario, config, work, limitMs: scenario.limitMs + hangsOf(config, work) };
}

/** A hang has to be known before the lease ends; held-out prompts would hang replicas at every evaluation again. */
function withHangs(config: JobConfig): JobConfig {
  const { health, timing } = config;
  const hungMaxMs = Math.min(health.hungMaxMs, Math.round(timing.leaseMs * 0.8));
  return { ...config, health: { ...health, hungMaxMs }, evaluation: { everySteps: 0, prompts: 0 } };
}

/** What all prompts that hang their holders cost, and as much again. */
function hangsOf({ steps, batch, failure, health }: JobConfig, { hangerRate = 0 }: WorkModel): number {
  const hangers = Math.ceil(hangerRate * steps * batch.groupsPerStep);
  return 2 * hangers * failure.engineCrash.attempts * (2 * health.hungMaxMs + 15_000);
}

/** About how long the job takes when all goes well. */
function spanOf(config: JobConfig, work: WorkModel): number {
  const { replicas, batch, limits, steps } = config;
  const rounds = Math.ceil(batch.groupsPerStep / (replicas.rollout * limits.chunkGroups));
  const sampleMs = rounds * work.responseMs * 3;
  const shards = Math.ceil(batch.microShards / replicas.policy) * batch.minibatches;
  const trainMs = shards * (work.shardMs + work.stageMs) + 1_000;
  return 10_000 + steps * (sampleMs + trainMs);
}

/** What recovering from the last fault may take on top. */
function graceOf({ timing }: JobConfig): number {
  const { leaseMs, stepMs, meshMs, pullMs, checkpointMs, drainMs, deadAfterMs } = timing;
  return 60_000 + 6 * (leaseMs + stepMs + meshMs + pullMs + deadAfterMs) + 2 * (checkpointMs + drainMs);
}
