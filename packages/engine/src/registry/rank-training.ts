/** How one process of a trainer of several works on its shard of the training state: what it tells Muster of it, and what Muster does with it. */
import type { PolicyEngine } from "../engine.ts";
import type { GradientMemory } from "../gradient-memory.ts";
import type { ShardTensor } from "./rank-layout.ts";

/** The shard of one rank, in its own memory. */
export interface RankState extends Pick<PolicyEngine, "state" | "candidate" | "restore"> {
  /** Size of its shard of the optimizer: whatever the engine keeps there. */
  readonly optimizerBytes: number;
  /** Elements of its part of each gradient, at least 1. */
  readonly gradientElements: number;
}

/** What a rank of a trainer stands on, rank 0 too. No process has more than its shard of anything, but while it reads a checkpoint. */
export interface RankTraining {
  /** Size of its shard of the weights. What lies between its tensors is zero. */
  readonly bytes: number;
  readonly tensors: readonly ShardTensor[];
  /** Says where the shard is. Comes before anything else. */
  attach(state: RankState): void;
  /**
   * Does what rank 0 hands on: digests, publishes, pulls or loads this rank's shard, sums its part of a gradient. Several may run at a time.
   *
   * @param ticket - Of {@link PolicyEngine.performAll}. It has no secret, and is text of at most 1 MiB.
   * @returns What rank 0 gives back to Muster as it is. A failure is in there, too.
   */
  perform(ticket: string, signal: AbortSignal): Promise<string>;
  /**
   * This rank's part of the gradient of a micro-shard, to write; see `shard` and `epoch` of `AccumulateOptions`.
   *
   * @throws MUSTER_ERR_ACTOR_NOT_OPEN for another epoch than the one at work: who computed for one that was given up has nothing to write.
   */
  gradient(shard: number, epoch: number): GradientMemory;
  /** This rank's part of the summed gradient, once `stage` was called. */
  sum(): GradientMemory;
}
