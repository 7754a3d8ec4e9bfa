/**
 * The plan of a chaos run: which fault when, drawn from a seed. Pure. Targets are logical (a role and an index), so a seed replays the
 * same intent whatever the processes are called and however fast the machine is.
 */
import { mixSeed, type Random, randomOf } from "@muster/base";
import { type PartitionWay, partitionWays } from "./partition.ts";

/** What may happen to a job, and how often by default. */
export const chaosKinds = [
  "kill",
  "rack",
  "freeze",
  "cut",
  "one-way",
  "reset",
  "data",
  "broker",
  "controller",
  "stall",
  "node",
  "partition",
] as const;

/** A kind of fault. */
export type ChaosKind = (typeof chaosKinds)[number];

/** A kind of fault, and the role that it is for; `null` for whatever the kind hits. */
export interface ChaosWish {
  readonly kind: ChaosKind;
  readonly role: ChaosRole | null;
}

/** Roles that faults of replicas choose from. */
export type ChaosRole = "policy" | "rollout" | "checkpoint";

/**
 * Whom a fault hits: the `index`-th living replica of a role, counted around; the broker; a node with all that it runs; the acting
 * controller; or the second host.
 */
export type ChaosTarget =
  | { readonly role: ChaosRole; readonly index: number }
  | { readonly role: "broker" | "controller" | "node" | "host"; readonly index: number };

/** One fault of the plan. */
export interface ChaosFault {
  readonly n: number;
  /** Milliseconds after the start of the faults. */
  readonly atMs: number;
  readonly kind: ChaosKind;
  readonly target: ChaosTarget;
  /** How long it lasts; 0 for what happens at once. */
  readonly lastsMs: number;
  /** What does not pass in a one-way cut: words to the broker, or words from it. */
  readonly direction?: "up" | "down";
  /** What does not pass between the two hosts in a partition. */
  readonly way?: PartitionWay;
}

/** Kinds that may be wished for one role, as in `kill.policy`. */
const roleKinds: readonly ChaosKind[] = ["kill", "freeze", "cut", "one-way", "reset"];
const chaosRoles: readonly ChaosRole[] = ["policy", "rollout", "checkpoint"];

/** Reads `kill` or `kill.policy`. @returns `null` when there is no such fault. Pure. */
export function chaosWishOf(text: string): ChaosWish | null {
  const [name, roleName, ...rest] = text.trim().split(".");
  const kind = chaosKinds.find((known) => known === name);
  const role = chaosRoles.find((known) => known === roleName) ?? null;
  const isWhole = rest.length === 0 && (roleName === undefined || role !== null);
  if (!kind || !isWhole || (role !== null && !roleKinds.includes(kind))) return null;
  return { kind, role };
}

/** What a plan is drawn from. */
export interface ScheduleOptions {
  readonly seed: number;
  readonly minutes: number;
  readonly kinds: readonly ChaosWish[];
  readonly replicas: Readonly<Record<ChaosRole, number>>;
  /** Dead time-out of the job: silences are drawn shorter and longer than it. */
  readonly deadAfterMs: number;
}

/** Mean pause between two faults of a kind. */
const everyMs: Readonly<Record<ChaosKind, number>> = {
  kill: 4_000,
  rack: 120_000,
  freeze: 15_000,
  cut: 30_000,
  "one-way": 60_000,
  reset: 40_000,
  data: 30_000,
  broker: 60_000,
  controller: 45_000,
  stall: 90_000,
  node: 120_000,
  partition: 30_000,
};

/** How often each role is killed: trainers and samplers more than the one that only writes. */
const killWeights: readonly (readonly [ChaosRole, number])[] = [
  ["policy", 4],
  ["rollout", 5],
  ["checkpoint", 1],
];

/** Draws the plan, in order of time. */
export function drawSchedule(options: ScheduleOptions): readonly ChaosFault[] {
  const endMs = options.minutes * 60_000;
  const drawn = options.kinds.flatMap((wish) => {
    const { kind } = wish;
    // Each kind has a stream of its own: leaving one out does not move the others.
    const random = randomOf(mixSeed(options.seed, chaosKinds.indexOf(kind) + 1));
    const faults: Omit<ChaosFault, "n">[] = [];
    let atMs = everyMs[kind] * (0.25 + 0.5 * random.next());
    while (atMs < endMs) {
      faults.push({ atMs: Math.round(atMs), kind, ...effectOf(wish, random, options) });
      atMs += everyMs[kind] * (0.75 + 0.5 * random.next());
    }
    return faults;
  });
  return drawn.sort((a, b) => a.atMs - b.atMs).map((fault, i) => ({ n: i + 1, ...fault }));
}

/** How long after the job is steady a fault of a series comes at most: at any point of a step. */
const stepMs = 700;

/**
 * Draws a series: `count` rounds of one fault of each kind, its replicas hit in turn, partitions in one way after the other from the one that
 * the seed names. Times count from when the job is steady; silences outlast every time-out. Pure.
 */
export function drawSeries(options: ScheduleOptions & { readonly count: number }): readonly ChaosFault[] {
  const drawers = options.kinds.map((wish) => {
    const random = randomOf(mixSeed(options.seed, chaosKinds.indexOf(wish.kind) + 1));
    return (round: number): Omit<ChaosFault, "n"> => {
      const { target, lastsMs, way, ...effect } = effectOf(wish, random, options);
      return {
        ...{ atMs: random.below(stepMs), kind: wish.kind, ...effect },
        target: { ...target, index: round },
        lastsMs: isSilence(wish.kind) ? silenceBeyond(target, options) : lastsMs,
        ...(way === undefined ? {} : { way: partitionWays[(options.seed + round) % partitionWays.length] ?? way }),
      };
    };
  });
  const rounds = Array.from({ length: options.count }, (_, round) => drawers.map((draw) => draw(round)));
  return rounds.flat().map((fault, i) => ({ n: i + 1, ...fault }));
}

function isSilence(kind: ChaosKind): boolean {
  return kind === "freeze" || kind === "cut" || kind === "one-way" || kind === "partition";
}

/** Samplers have half as long again as trainers before they are given up. */
function silenceBeyond({ role }: ChaosTarget, { deadAfterMs }: ScheduleOptions): number {
  return Math.round(deadAfterMs * (role === "policy" ? 1.4 : 1.8));
}

type Effect = Pick<ChaosFault, "target" | "lastsMs" | "direction" | "way">;

function effectOf({ kind, role }: ChaosWish, random: Random, options: ScheduleOptions): Effect {
  const effect = anyEffectOf(kind, random, options);
  // The draw is the same with a role as without: a wish for one role moves nothing else.
  return role === null ? effect : { ...effect, target: { role, index: effect.target.index } };
}

function anyEffectOf(kind: ChaosKind, random: Random, options: ScheduleOptions): Effect {
  switch (kind) {
    case "kill":
      return { target: replicaOf(random, options, killWeights), lastsMs: 0 };
    case "rack":
      return { target: { role: "policy", index: 0 }, lastsMs: 0 };
    case "freeze":
      return { target: anyReplica(random, options), lastsMs: silenceMs(random, options) };
    case "cut":
      return { target: anyReplica(random, options), lastsMs: silenceMs(random, options) };
    case "one-way": {
      const direction = random.below(2) === 0 ? "up" : "down";
      return { target: anyReplica(random, options), lastsMs: silenceMs(random, options), direction };
    }
    case "reset":
      return { target: anyReplica(random, options), lastsMs: 0 };
    case "data":
      return { target: { role: "policy", index: random.below(64) }, lastsMs: 1_000 + random.below(4_000) };
    case "broker":
      return { target: { role: "broker", index: 0 }, lastsMs: 0 };
    case "controller":
      return { target: { role: "controller", index: 0 }, lastsMs: 0 };
    case "node":
      return { target: { role: "node", index: random.below(64) }, lastsMs: 0 };
    case "partition": {
      const way = partitionWays[random.below(partitionWays.length)] ?? "all";
      return { target: { role: "host", index: random.below(64) }, lastsMs: silenceMs(random, options), way };
    }
    case "stall":
      // Longer than a standby waits, so that the one that comes back finds another in its place.
      return { target: { role: "controller", index: 0 }, lastsMs: 7_000 + random.below(6_000) };
  }
}

/** Half of the silences end before anybody is given up, half outlast it. */
function silenceMs(random: Random, { deadAfterMs }: ScheduleOptions): number {
  const share = random.below(2) === 0 ? 0.1 + 0.6 * random.next() : 1.2 + 0.4 * random.next();
  return Math.round(deadAfterMs * share);
}

function anyReplica(random: Random, options: ScheduleOptions): ChaosTarget {
  return replicaOf(random, options, [
    ["policy", 1],
    ["rollout", 1],
  ]);
}

function replicaOf(
  random: Random,
  { replicas }: ScheduleOptions,
  weights: readonly (readonly [ChaosRole, number])[],
): ChaosTarget {
  const there = weights.filter(([role]) => replicas[role] > 0);
  let left = random.below(
    Math.max(
      1,
      there.reduce((sum, [, weight]) => sum + weight, 0),
    ),
  );
  const index = random.below(64);
  for (const [role, weight] of there) {
    if (left < weight) return { role, index };
    left -= weight;
  }
  return { role: "policy", index };
}
