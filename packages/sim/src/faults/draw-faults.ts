/** Draws what goes wrong: many seeds have few kinds of faults, some have all of them, and the rates differ. */
import { type Random, randomOf, shuffled } from "@muster/base";
import { type JobConfig, processNameOf, replicaRoles } from "@muster/protocol";
import { drawCommand, type FleetShape } from "../fleet/command.ts";
import { trainerSizeOf } from "../ranks/cut.ts";
import { crowdSizes } from "../seed/draw-crowd.ts";
import { drawArms, drawBarrierArms, drawShardArms } from "./draw-arms.ts";
import { drawChanges } from "./draw-changes.ts";
import { drawRankFaults } from "./draw-rank-faults.ts";
import type { Fault } from "./fault.ts";
import { allLies, refutedLies } from "./liar.ts";
import { faultWeights, type TimedKind, type Weights } from "./profiles.ts";
import { stolenRoles } from "./thief.ts";

/** In which share of the seeds one more leaves. */
const leaverShare = 0.2;

/** Faults of a large job at least, and deaths of its controller. */
const crowdFaults = 8;
const crowdElections = 2;

/** In which share of the seeds results are spoiled or wrong. */
const unsoundShare = 0.3;

/** In which share of the seeds of profiles about what is stored the journal loses its end, and in which all consumers are gone once. */
const journalLossShare = 0.1;
const expiryShare = 0.4;

/** In which share of the seeds something happens to those who write shards. */
const shardFaultShare = 0.75;

/** What faults are drawn for. */
export interface FaultOptions {
  readonly seed: number;
  readonly profile: string;
  readonly config: JobConfig;
  readonly fleet?: FleetShape | undefined;
  /** Faults begin and end within this time. */
  readonly safetyMs: number;
  readonly random: Random;
}

/** Draws a list of faults. Pure. */
export function drawFaults(options: FaultOptions): readonly Fault[] {
  const { seed, profile, config, random, safetyMs, fleet } = options;
  const kinds = faultWeights[profile] ?? [];
  const isSwarm = kinds === faultWeights.swarm || profile === "fleet";
  const chosen = isSwarm ? shuffled(kinds, random).slice(0, 1 + random.below(5)) : kinds;
  const perMinute = 0.5 + 6 * random.next() * random.next();
  const isCrowd = crowdSizes[profile] !== undefined;
  const count = Math.max(isCrowd ? crowdFaults : 1, Math.round((perMinute * safetyMs) / 60_000));
  const timed = Array.from({ length: count }, () => drawTimed(drawKind(chosen, random), options));
  const pointed = isSwarm ? drawArms({ seed, isFleet: fleet !== undefined, random: randomOf(seed, 113) }) : [];
  const leaver = isSwarm && random.next() < leaverShare ? drawLeaver(options) : [];
  const unsound = isSwarm ? drawUnsound(safetyMs, randomOf(seed, 127)) : [];
  const losses = randomOf(seed, 137);
  if (isLossy(profile) && losses.next() < journalLossShare) return [drawLoss("journal", safetyMs, losses)];
  const lost = isLossy(profile) ? drawLosses(safetyMs, losses) : [];
  const isNoisy =
    profile === "broker" || (profile === "barriers" && random.next() < 0.4) || (isSwarm && random.next() < 0.4);
  const asked = fleet ? drawCommands(options) : [];
  const isScript = profile === "barriers";
  const elections = isCrowd || isScript ? drawElections(options) : [];
  const arrivals = isScript ? drawBarrierArms(randomOf(seed, 167)) : [];
  const sharded = profile === "storage" && (config.checkpoint.shards ?? 1) > 1 ? drawShards(options) : [];
  const ofRanks = trainerSizeOf(config) > 1 ? drawRankFaults(seed, { config, safetyMs }) : [];
  const changes = isSwarm ? drawChanges(seed, options) : [];
  const rest = [...pointed, ...changes, ...arrivals, ...sharded, ...ofRanks, ...(isNoisy ? [drawNoise(random)] : [])];
  return [...timed, ...elections, ...leaver, ...unsound, ...lost, ...asked, ...rest];
}

/** What may happen while several write one checkpoint; in three seeds of four, so that the others show what takes how long. */
function drawShards({ seed, config, safetyMs }: FaultOptions): readonly Fault[] {
  const random = randomOf(seed, 181);
  if (random.next() >= shardFaultShare) return [];
  const writer = (): string => `checkpoint-${1 + random.below(config.replicas.checkpoint)}`;
  const atMs = (): number => Math.round(random.next() * safetyMs);
  const stillMs = (): number => Math.round(5_000 + 20_000 * random.next());
  // One is left, who writes all shards and seals them.
  const loseOthers = (): readonly Fault[] =>
    Array.from({ length: config.replicas.checkpoint - 1 }, (_, i) => ({
      kind: "gone",
      atMs: atMs(),
      node: `checkpoint-${i + 2}`,
    }));
  return [
    ...drawShardArms(random),
    { kind: "kill", atMs: atMs(), node: writer(), isSeen: random.next() < 0.5 },
    // Whoever stands still for so long is evicted, wakes up, and goes on with a set that others have.
    { kind: random.next() < 0.5 ? "pause" : "suspend", atMs: atMs(), forMs: stillMs(), node: writer() },
    ...(random.next() < 0.3 ? [{ kind: "second-controller", atMs: atMs() } as const] : []),
    ...(random.next() < 0.4 ? loseOthers() : []),
  ];
}

/** Brokers that lose what they had not synced, and forget consumers. */
function isLossy(profile: string): boolean {
  return profile === "broker" || profile === "storage";
}

/** After the loss of the journal's end the job ends, so nothing else goes wrong there. */
function drawLosses(safetyMs: number, random: Random): readonly Fault[] {
  const streams = shuffled(["reports", "commands", "groups", "events", "state"] as const, random);
  const lost = streams.slice(0, random.below(3)).map((stream) => drawLoss(stream, safetyMs, random));
  if (random.next() >= expiryShare) return lost;
  return [...lost, { kind: "consumer-expiry", atMs: Math.round(random.next() * safetyMs) }];
}

/** The broker is back before a controller gives its record up: one that begins anew can not know what was lost. */
function drawLoss(stream: Extract<Fault, { kind: "suffix-loss" }>["stream"], safetyMs: number, random: Random): Fault {
  const [atMs, forMs] = [Math.round(random.next() * safetyMs), 500 + random.below(2_000)];
  return { kind: "suffix-loss", atMs, forMs, stream, lostMs: Math.round(100 + 20_000 * random.next() ** 3) };
}

function drawKind(weights: Weights, random: Random): TimedKind {
  let left = random.next() * weights.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [kind, weight] of weights) {
    left -= weight;
    if (left < 0) return kind;
  }
  return "kill";
}

/** The controller of a large job dies, too: a drawn member hardly ever is the one. */
function drawElections({ random, safetyMs }: FaultOptions): readonly Fault[] {
  return Array.from({ length: crowdElections }, () => ({
    kind: "kill",
    atMs: Math.round(random.next() * safetyMs),
    node: "controller",
    isSeen: true,
  }));
}

/** Somebody of any role leaves: of some roles there are so few that hardly one would. */
function drawLeaver(options: FaultOptions): readonly Fault[] {
  const { random, safetyMs } = options;
  const role = replicaRoles[random.below(replicaRoles.length)] ?? "policy";
  const ids = nodesOf(options).filter((id) => id.startsWith(role));
  const node = ids[random.below(Math.max(1, ids.length))];
  return node === undefined ? [] : [{ kind: "drain", atMs: Math.round(random.next() * safetyMs), node }];
}

/** Fewer lies than evict a sampler. */
function drawUnsound(safetyMs: number, random: Random): readonly Fault[] {
  if (random.next() >= unsoundShare) return [];
  const kind = random.next() < 0.5 ? "spoil" : "misreport";
  return [{ kind, atMs: Math.round(random.next() * safetyMs), count: 1 + random.below(2) }];
}

/** What the operator does; every third command is given again. */
function drawCommands(options: FaultOptions): readonly Fault[] {
  const { random, config, safetyMs } = options;
  const ids = nodesOf(options)
    .slice(1)
    .filter((id) => !id.includes("."));
  return Array.from({ length: random.below(10) }, (_, i) => {
    const againMs = random.next() < 0.3 ? [0, Math.round(8_000 * random.next())].slice(random.below(2)) : [];
    const atMs = Math.round(random.next() * safetyMs);
    return { kind: "command", atMs, id: `c${i}`, command: drawCommand(random, { config, ids }), againMs };
  });
}

function nodesOf({ config, fleet }: FaultOptions): readonly string[] {
  const { processes } = config;
  const { policy, rollout, checkpoint } = config.replicas;
  if (fleet) {
    const managed = (role: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${role}-${i}`);
    const own = fleet.nodes.map((_, i) => `node-${i + 1}`);
    const replicas = [...managed("policy", policy + 1), ...managed("rollout", rollout + 1)];
    const others = managed("rollout", rollout + 1).flatMap((id) =>
      Array.from({ length: (processes?.rollout ?? 1) - 1 }, (_, i) => processNameOf(id, i + 1)),
    );
    return ["controller", ...own, ...own, ...replicas, ...managed("checkpoint", checkpoint), ...others];
  }
  const named = (role: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${role}-${i + 1}`);
  return ["controller", ...named("policy", policy), ...named("rollout", rollout), ...named("checkpoint", checkpoint)];
}

function drawTimed(kind: TimedKind, options: FaultOptions): Fault {
  const { random, safetyMs, profile } = options;
  const nodes = nodesOf(options);
  const pick = <T>(from: readonly T[]): T => from[random.below(from.length)] as T;
  const node =
    kind === "kill-host" || kind === "ailing-host" ? pick(nodes.filter((id) => id.startsWith("node-"))) : pick(nodes);
  const atMs = Math.round(random.next() * safetyMs);
  const forMs = Math.round(500 + 25_000 * random.next() * random.next());
  switch (kind) {
    case "kill":
      return { kind, atMs, node, isSeen: random.next() < 0.7 };
    case "kill-all":
      return { kind, atMs, role: pick(["policy", "policy", "rollout", "checkpoint"]), isSeen: random.next() < 0.7 };
    case "pause":
    case "suspend":
    case "hang":
    case "disconnect":
    case "bit-flip":
      return { kind, atMs, forMs, node };
    case "partition":
      return { kind, atMs, forMs, node, way: pick(["both", "up", "down"] as const) };
    case "slow":
      return { kind, atMs, forMs: 4 * forMs, node: pick(nodes.slice(1)), factor: 1 + random.next() };
    case "kill-host":
      return { kind, atMs, node };
    case "ailing-host":
      return { kind, atMs, forMs: 10_000 + 2 * forMs, node };
    case "clock-jump":
      return { kind, atMs, node, byMs: Math.round(7_200_000 * (random.next() - 0.5)) };
    case "drain":
      return { kind, atMs, node: pick(nodes.slice(1)) };
    case "broker-stall":
      return { kind, atMs, forMs: Math.round(6_000 + 3_000 * random.next()) };
    case "forgery":
      return { kind, atMs, count: 1 + random.below(8) };
    case "lie":
      return { kind, atMs, about: profile === "perjury" ? allLies : refutedLies };
    case "theft":
      return { kind, atMs, role: pick(stolenRoles), count: 1 + random.below(3) };
    case "data-cut":
      return { kind, atMs, forMs, between: [pick(nodes.slice(1)), pick(nodes.slice(1))] };
    case "corruption":
      return { kind, atMs, forMs, rate: 0.1 + 0.4 * random.next() };
    case "broker-restart":
      return { kind, atMs, forMs };
    case "second-controller":
    case "power-loss":
      return { kind, atMs };
    case "rot":
      return { kind, atMs, isFatal: random.next() < 0.7 };
  }
}

function drawNoise(random: Random): Fault {
  const rate = (most: number): number => (random.next() < 0.5 ? 0 : random.next() * most);
  return {
    kind: "noise",
    noise: {
      delayMs: 0.3 + rate(20),
      jitterMs: 0.5 + rate(200),
      coreLoss: rate(0.3),
      answerLoss: rate(0.1),
      duplicates: rate(0.2),
      reorder: random.next() < 0.5,
    },
  };
}
