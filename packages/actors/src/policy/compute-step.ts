/**
 * Computes the candidate of a step: for each minibatch the micro-shards of this rank, the sum over all ranks, one update.
 * Which rank computes a shard changes nothing in the sum, so the candidate does not depend on the size of the mesh.
 */

import type { Clock } from "@muster/base";
import type { GradientMesh, ShardWindow } from "@muster/collectives";
import {
  batchFiguresOf,
  type GradientMemory,
  gradientThrough,
  gradientWindowMax,
  learningRateAt,
  lossOf,
  type Minibatch,
  type PolicyEngine,
  planMinibatches,
  referenceKlOf,
  referenceLogprobsOf,
  type ShardStats,
} from "@muster/engine";
import {
  figureMax,
  isSupervised,
  type JobConfig,
  type StepStats,
  type TrajectoryGroup,
  trainingDefaults,
} from "@muster/protocol";
import { errors } from "../errors.ts";
import { type HeldOutRows, type HeldOutSum, heldOutLossOf, isHeldOutDue } from "./held-out-loss.ts";

/** What a step is computed with. */
export interface ComputeOptions {
  readonly engine: PolicyEngine;
  readonly mesh: GradientMesh;
  readonly config: JobConfig;
  readonly step: number;
  readonly groups: readonly TrajectoryGroup[];
  /** Number of the next reduction on this mesh; equal on all ranks. */
  readonly nextOp: () => number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onShard: () => void;
  /** Of a job that measures the loss on held-out rows. */
  readonly heldOut?: HeldOutRows | null;
  /** Most elements of a window of a gradient; for tests. */
  readonly windowMax?: number;
}

interface Totals extends ShardStats {
  gradNorm: number;
  reduceMs: number;
}

/** Leaves the candidate in the engine. @returns Whether all gradients were finite, and what this rank measured. */
export async function computeStep(
  options: ComputeOptions,
): Promise<{ readonly finite: boolean; readonly stats: StepStats }> {
  const { engine, config, step, groups, clock, signal, onShard } = options;
  const startedMs = clock.now();
  const { seed, training, sampling, batch } = config;
  const reference = await referenceLogprobsOf(engine, groups, { training, ...sampling, signal, onPart: onShard });
  if (reference) onShard();
  const plan = planMinibatches(groups, { seed, step, ...batch, training, ...sampling, reference });
  const totals: Totals[] = [];
  let finite = true;
  engine.begin();
  for (const minibatch of plan) {
    const update = await runMinibatch(minibatch, options);
    finite &&= update.finite;
    totals.push(update.totals);
  }
  const sum = (of: (total: Totals) => number): number => totals.reduce((all, total) => all + of(total), 0);
  const reduceMs = sum((total) => total.reduceMs);
  const computeMs = Math.max(0, clock.now() - startedMs - reduceMs);
  const stats: StepStats = {
    tokens: sum((total) => total.tokens),
    clipped: sum((total) => total.clipped),
    klSum: isSupervised(config) ? 0 : sayable(sum((total) => total.klSum)),
    entropySum: sayable(sum((total) => total.entropySum)),
    lossSum: sayable(sum((total) => total.lossSum)),
    ...(isSupervised(config) ? {} : firstGapOf(totals)),
    ...referenceKlSumOf(totals, config),
    gradNorm: sayable(totals.at(-1)?.gradNorm ?? 0),
    computeMs,
    reduceMs,
    batch: {
      ...batchFiguresOf(groups, training),
      lr: learningRateOf(step, config),
      ...(reference && { referenceKl: sayable(referenceKlOf(groups, reference)) }),
    },
    ...(finite && (await heldOutOf(options))),
  };
  return { finite, stats };
}

/** Of the candidate as it is now, where the loss on held-out rows is due. */
async function heldOutOf(options: ComputeOptions): Promise<Pick<StepStats, "heldOut">> {
  const { heldOut: rows, step, config, mesh, onShard } = options;
  if (!rows || !isHeldOutDue(step, config)) return {};
  const { microShards } = config.batch;
  const shards = Array.from({ length: microShards }, (_, shard) => shard).filter(
    (shard) => rankOf(shard, microShards, mesh.worldSize) === mesh.rank,
  );
  const memoryOf = (shard: number): GradientMemory => memoryIn(options, (window) => mesh.shard(shard, window));
  const found = await heldOutLossOf({ ...options, ...rows, shards, memoryOf, onPart: onShard }, addHeldOut);
  return found ? { heldOut: found } : {};
}

/** Gradients of the engine, in memory that is seen through windows. */
function memoryIn(
  { engine, windowMax = gradientWindowMax }: ComputeOptions,
  view: (window: ShardWindow) => Float32Array,
): GradientMemory {
  return gradientThrough(engine.info().gradientElements, view, windowMax);
}

/** Before the first update nothing but the sampler's arithmetic and the age of its weights sets both apart. Absent where a shard had no such figure. */
function firstGapOf([first]: readonly Totals[]): Pick<StepStats, "logprobGap"> {
  if (first?.logprobGapSum === undefined || first.logprobGapMax === undefined) return {};
  const { tokens, logprobGapSum, logprobGapMax } = first;
  return { logprobGap: { tokens, sum: sayable(logprobGapSum), max: sayable(logprobGapMax) } };
}

/** Only of a job with a divergence in its loss, and where every shard had the figure. */
function referenceKlSumOf(
  totals: readonly Totals[],
  { training = trainingDefaults }: JobConfig,
): Pick<StepStats, "referenceKlSum"> {
  if (lossOf(training).klCoefficient === 0) return {};
  const sum = totals.reduce<number | undefined>((all, total) => bothOf(all, total.referenceKlSum, plus), 0);
  return sum === undefined ? {} : { referenceKlSum: sayable(sum) };
}

function learningRateOf(step: number, { optimizer, steps }: JobConfig): number {
  const { lr, lrWarmupSteps: warmupSteps, lrFinalRatio: finalRatio, lrSchedule: schedule } = optimizer;
  return learningRateAt(step, { lr, warmupSteps, finalRatio, steps, schedule });
}

/** Figures go into votes as multiples of this: sums of them are exact, so they do not depend on who computed which part. */
const grain = 2 ** -26;

/** A figure as it can be said; one that is no number is as large as can be. */
function sayable(figure: number): number {
  if (Number.isNaN(figure)) return figureMax;
  return Math.max(-figureMax, Math.min(figureMax, figure));
}

const onGrid = (figure: number): number => sayable(Math.round(figure / grain) * grain);

/** Each rank has neighbours in the tree of shards: their sum crosses to another host in their place. Shares differ by one shard at most. */
const rankOf = (shard: number, shards: number, worldSize: number): number =>
  Math.floor(((shard + 1) * worldSize - 1) / shards);

async function runMinibatch(
  minibatch: Minibatch,
  options: ComputeOptions,
): Promise<{ readonly finite: boolean; readonly totals: Totals }> {
  const { engine, mesh, config, step, clock, signal, windowMax = gradientWindowMax } = options;
  const { gradientElements } = engine.info();
  const totals: Totals = {
    ...{ tokens: 0, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, gradNorm: 0, reduceMs: 0 },
    ...{ logprobGapSum: 0, logprobGapMax: 0, referenceKlSum: 0 },
  };
  const written: number[] = [];
  let mine = totals;
  for (const [index, samples] of minibatch.shards.entries()) {
    if (rankOf(index, minibatch.shards.length, mesh.worldSize) !== mesh.rank) continue;
    const stats = await engine.accumulate(samples, {
      normalizer: minibatch.normalizer,
      ...config.loss,
      ...(config.training && { loss: lossOf(config.training) }),
      temperature: config.sampling.temperature,
      ...{ shard: index, epoch: mesh.epoch },
      out: memoryIn(options, (window) => mesh.shard(index, window)),
      signal,
    });
    written.push(index);
    mine = addStats(mine, stats);
    options.onShard();
  }
  const startedMs = clock.now();
  const window = { from: 0, elements: Math.min(windowMax, gradientElements) };
  await mesh.reduce({ op: options.nextOp(), written, window, deadlineMs: config.timing.collectiveMs, signal });
  const reduceMs = clock.now() - startedMs;
  const { lrWarmupSteps: _, lrFinalRatio: __, lrSchedule: ___, ...optimizer } = config.optimizer;
  const staged = await engine.stage(
    memoryIn(options, (of) => mesh.result(of)),
    { ...optimizer, lr: learningRateOf(step, config), signal },
  );
  return { finite: staged.finite, totals: { ...mine, gradNorm: staged.gradNorm, reduceMs } };
}

/** What an engine counts goes to the controller, where it must be true. @throws MUSTER_ERR_ENGINE_STATS_INVALID */
function checkCounts({ tokens, clipped, logprobGapSum = 0, logprobGapMax = 0 }: ShardStats): void {
  const require = (holds: boolean, field: string, value: number, rule: string): void => {
    if (!holds) throw errors.EngineStatsInvalid({ field, value: String(value), rule });
  };
  require(Number.isSafeInteger(tokens) && tokens >= 0, "tokens", tokens, "a whole number, 0 or more");
  const isPart = Number.isSafeInteger(clipped) && clipped >= 0 && clipped <= tokens;
  require(isPart, "clipped", clipped, `a whole number from 0 to tokens = ${tokens}`);
  require(!(logprobGapSum < 0), "logprobGapSum", logprobGapSum, "0 or more, or absent");
  require(!(logprobGapMax < 0), "logprobGapMax", logprobGapMax, "0 or more, or absent");
}

const plus = (one: number, other: number): number => one + onGrid(other);

/** What is known of a whole only where it is known of both parts. */
function bothOf(
  one: number | undefined,
  other: number | undefined,
  of: (one: number, other: number) => number,
): number | undefined {
  return one === undefined || other === undefined ? undefined : of(one, other);
}

function addHeldOut(sum: HeldOutSum, stats: ShardStats): HeldOutSum {
  checkCounts(stats);
  return { tokens: sum.tokens + stats.tokens, lossSum: plus(sum.lossSum, stats.lossSum) };
}

function addStats(totals: Totals, stats: ShardStats): Totals {
  checkCounts(stats);
  return {
    ...totals,
    tokens: totals.tokens + stats.tokens,
    clipped: totals.clipped + stats.clipped,
    klSum: totals.klSum + onGrid(stats.klSum),
    entropySum: totals.entropySum + onGrid(stats.entropySum),
    lossSum: totals.lossSum + onGrid(stats.lossSum),
    logprobGapSum: bothOf(totals.logprobGapSum, stats.logprobGapSum, plus),
    logprobGapMax: bothOf(totals.logprobGapMax, stats.logprobGapMax, Math.max),
    referenceKlSum: bothOf(totals.referenceKlSum, stats.referenceKlSum, plus),
  };
}
