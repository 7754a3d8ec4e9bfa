/**
 * Computes the candidate of a step: for each minibatch the micro-shards of this rank, the ordered sum over all ranks, one update.
 * Which rank computes a shard changes nothing in the sum, so the candidate does not depend on the size of the mesh.
 */

import type { Clock } from "@muster/base";
import type { GradientMesh } from "@muster/collectives";
import { learningRateAt, type Minibatch, type PolicyEngine, planMinibatches, type ShardStats } from "@muster/engine";
import type { JobConfig, StepStats, TrajectoryGroup } from "@muster/protocol";

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
}

interface Totals extends ShardStats {
  gradNorm: number;
  reduceMs: number;
}

/** Leaves the candidate in the engine. @returns Whether all gradients were finite, and what this rank measured. */
export async function computeStep(
  options: ComputeOptions,
): Promise<{ readonly finite: boolean; readonly stats: StepStats }> {
  const { engine, config, step, groups, clock } = options;
  const startedMs = clock.now();
  const { seed } = config;
  const plan = planMinibatches(groups, { seed, step, ...config.batch });
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
  const stats: StepStats = {
    tokens: sum((total) => total.tokens),
    clipped: sum((total) => total.clipped),
    klSum: sum((total) => total.klSum),
    entropySum: sum((total) => total.entropySum),
    lossSum: sum((total) => total.lossSum),
    gradNorm: totals.at(-1)?.gradNorm ?? 0,
    computeMs: clock.now() - startedMs - reduceMs,
    reduceMs,
  };
  return { finite, stats };
}

async function runMinibatch(
  minibatch: Minibatch,
  options: ComputeOptions,
): Promise<{ readonly finite: boolean; readonly totals: Totals }> {
  const { engine, mesh, config, step, clock, signal } = options;
  const totals: Totals = { tokens: 0, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, gradNorm: 0, reduceMs: 0 };
  const written: number[] = [];
  let mine = totals;
  for (const [index, samples] of minibatch.shards.entries()) {
    if (index % mesh.worldSize !== mesh.rank) continue;
    const stats = await engine.accumulate(samples, {
      normalizer: minibatch.normalizer,
      ...config.loss,
      temperature: config.sampling.temperature,
      out: mesh.shard(index),
      signal,
    });
    written.push(index);
    mine = addStats(mine, stats);
    options.onShard();
  }
  const startedMs = clock.now();
  const gradient = await mesh.reduce({ op: options.nextOp(), written, deadlineMs: config.timing.collectiveMs, signal });
  const reduceMs = clock.now() - startedMs;
  const { lrWarmupSteps: warmupSteps, lrFinalRatio: finalRatio, ...optimizer } = config.optimizer;
  const lr = learningRateAt(step, { lr: optimizer.lr, warmupSteps, finalRatio, steps: config.steps });
  const staged = await engine.stage(gradient, { ...optimizer, lr });
  return { finite: staged.finite, totals: { ...mine, gradNorm: staged.gradNorm, reduceMs } };
}

function addStats(totals: Totals, stats: ShardStats): Totals {
  return {
    ...totals,
    tokens: totals.tokens + stats.tokens,
    clipped: totals.clipped + stats.clipped,
    klSum: totals.klSum + stats.klSum,
    entropySum: totals.entropySum + stats.entropySum,
    lossSum: totals.lossSum + stats.lossSum,
  };
}
