/**
 * Draws the failpoints of a seed. Some come from a rotation over all pairs of point and action, so that many seeds in a row come to each of
 * them; points that few jobs come to are armed besides, since nothing happens where nobody comes.
 */
import { type Random, randomOf, shuffled } from "@muster/base";
import type { Fault } from "./fault.ts";
import { type ActionType, actionsAt, fleetPairs, type Pair, pairs } from "./pairs.ts";
import { barrierPoints, points, rankPoints, shardPoints } from "./points.ts";

/** What failpoints are drawn for. */
export interface ArmOptions {
  readonly seed: number;
  readonly isFleet: boolean;
  readonly random: Random;
}

/** Pairs of the rotation per seed. */
const turnPairs = 5;

/** One seed in so many has no failpoint: what takes how long is judged only there. */
const pointlessEvery = 4;

/** Points that few jobs come to, or only once, and in which share of the seeds the first time is armed. */
const scarce: readonly { readonly where: RegExp; readonly share: number }[] = [
  {
    where:
      /draining$|checkpoint\.failed$|checkpoint-load$|policy\.fs-|^policy\..*weights\.failed$|^checkpoint\..*fenced$/,
    share: 1,
  },
  {
    where: /(weights\.failed|mesh\.failed|fenced|refused|returned|quarantined|hung|retried|skipped|before-fetch)$/,
    share: 0.4,
  },
  {
    where:
      /(job\.ended|alarm\.raised|released|resumed|aborted|recovered|suspected|eval\.finished|evals\.completed|kept|checkpoint\.saved|checkpoint\.save|member\.left|replica\.left|replica\.stop|process\.exited|before-purge|after-purge|purge-journal|store-open|fs-remove|fs-rmdir|fs-open|fs-read|fs-stat)$/,
    share: 0.15,
  },
  {
    where: /(discard|job\.started|initialize|weights\.meta|replica\.register|fs-prepare|before-head)$/,
    share: 0.1,
  },
];

/** In which share of the seeds a controller ends right before or after an append: the moment on which everything rests. */
const appendShare = 0.2;

/** Draws the failpoints of a seed. Pure. */
export function drawArms(options: ArmOptions): readonly Fault[] {
  const { seed, isFleet, random } = options;
  if (seed % pointlessEvery === 0) return [];
  const turn = seed - Math.floor(seed / pointlessEvery);
  const own = isFleet ? fleetPairs : pairs;
  const inTurn = Array.from({ length: turnPairs }, (_, i) =>
    armOf(pairAt(own, turn * turnPairs + i), nearNth(random), random),
  );
  const anywhere = Array.from({ length: random.below(8) }, () =>
    armOf(pick(isFleet && random.next() < 0.3 ? own : pairs, random), farNth(random), random),
  );
  return [...inTurn, ...(isFleet ? [] : drawScarce(turn, random)), ...anywhere, ...drawAppend(randomOf(seed, 115))];
}

/** Failpoints of barriers in one seed. */
const barrierArms = 3;

/** Failpoints around arrivals and their answers, and the end of a controller at an append, in every seed. Pure. */
export function drawBarrierArms(random: Random): readonly Fault[] {
  const arms = Array.from({ length: barrierArms }, () => {
    const point = barrierPoints[random.below(barrierPoints.length)] ?? "";
    const actions = actionsAt(point);
    const action = actions[random.below(actions.length)] ?? "crash";
    return armOf({ point, action }, 1 + random.below(12), random);
  });
  const point = random.next() < 0.5 ? "controller.before-journal" : "controller.after-journal";
  return [...arms, armOf({ point, action: "crash" }, 20 + random.below(200), random)];
}

/** Failpoints of shards in one seed: on the disk, and around what is said of them. */
const shardDiskArms = 3;
const shardWireArms = 2;

/** Calls to the disk that writing and sealing consist of, and how many of them the first checkpoints take at least. */
const shardCalls: readonly (readonly [string, number])[] = [
  ["mkdir", 4],
  ["create", 30],
  ["write", 30],
  ["sync", 30],
  ["rename", 20],
  ["syncdir", 20],
  ["list", 20],
  ["stat", 60],
  ["remove", 20],
  ["rmdir", 4],
];

const shardWire = [...shardPoints, ...points.filter((point) => /\.checkpoint\.(save|saved|failed)$/.test(point))];

/**
 * Failpoints where several write one checkpoint: their ends and stand-stills between any two calls to the disk, writes that fail, hang or are late, orders
 * and reports that are lost. Pure.
 */
export function drawShardArms(random: Random): readonly Fault[] {
  const armAt = (point: string, most: number): Fault => {
    const actions = actionsAt(point);
    const action = actions[random.below(actions.length)] ?? "crash";
    return armOf({ point, action }, 1 + random.below(most), random);
  };
  const calls = shuffled(shardCalls, random).slice(0, shardDiskArms);
  const messages = shuffled(shardWire, random).slice(0, shardWireArms);
  return [
    ...calls.map(([call, most]) => armAt(`checkpoint.fs-${call}`, most)),
    ...messages.map((point) => armAt(point, 6)),
  ];
}

/** Failpoints where processes of a trainer hear what they are to do, answer, and compute their parts of gradients. Pure. */
export function drawRankArms(random: Random): readonly Fault[] {
  return rankPoints.map((point) => {
    const actions = actionsAt(point);
    return armOf({ point, action: actions[random.below(actions.length)] ?? "crash" }, 1 + random.below(80), random);
  });
}

/** The death of a controller at an append of its journal, early or late in the job. */
function drawAppend(random: Random): readonly Fault[] {
  if (random.next() >= appendShare) return [];
  const point = random.next() < 0.5 ? "controller.before-journal" : "controller.after-journal";
  const nth = 1 + random.below(random.next() < 0.5 ? 20 : 200);
  return [armOf({ point, action: "crash" }, nth, random)];
}

/** At each scarce point one action after the other, turn by turn. */
function drawScarce(turn: number, random: Random): readonly Fault[] {
  return points.flatMap((point, i) => {
    const { share = 0 } = scarce.find(({ where }) => where.test(point)) ?? {};
    if (random.next() >= share) return [];
    const actions = actionsAt(point);
    const action = actions[(turn + i) % actions.length];
    return action ? [armOf({ point, action }, 1, random)] : [];
  });
}

/** The pairs in an order in which neighbours are far from each other: a step near the golden section, without a common divisor. */
function pairAt(list: readonly Pair[], index: number): Pair {
  let step = Math.round(list.length * 0.618);
  while (divisorOf(step, list.length) > 1) step++;
  return list[(index * step) % list.length] as Pair;
}

function divisorOf(a: number, b: number): number {
  return b === 0 ? a : divisorOf(b, a % b);
}

function pick(list: readonly Pair[], random: Random): Pair {
  return list[random.below(list.length)] as Pair;
}

/** Soon enough that most jobs come to it. */
function nearNth(random: Random): number {
  return 1 + random.below(random.next() < 0.7 ? 3 : 8);
}

function farNth(random: Random): number {
  return 1 + random.below(random.next() < 0.7 ? 6 : 60);
}

/** A failpoint that does this the `nth` time that somebody comes there. */
export function armOf({ point, action }: Pair, nth: number, random: Random): Fault {
  return { kind: "failpoint", point, nth, action: actionOf(action, random.next()) };
}

function actionOf(type: ActionType, luck: number) {
  if (type === "pause" || type === "hang") return { type, forMs: Math.round(1_000 + 20_000 * luck) };
  return type === "delay" ? { type, delayMs: Math.round(10 + 8_000 * luck) } : { type };
}
