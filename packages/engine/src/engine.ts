/**
 * What a replica computes, as interfaces. Two roles, because an inference server cannot train and a trainer may own its
 * collectives. Sections of state are raw bytes, so that whoever moves or stores them needs to know nothing else.
 */
import type { EngineInfo, Generated, RewardAnswer, RewardInput, SamplingOptions, SectionBytes } from "@muster/base";
import type { Training } from "@muster/protocol";
import type { PlacedTensor } from "@muster/tensors";
import type { GradientMemory } from "./gradient-memory.ts";

export type { EngineInfo, Generated, RewardInput, SamplingOptions } from "@muster/base";

/** A tensor as a planner of slices knows it. */
export interface RankTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly elementBytes: number;
  /** The dimension that is cut; 0: by rows, which are outputs of a product or token ids. `null`: every rank has the whole tensor. */
  readonly partition: number | null;
  readonly layer: number | "first" | "last";
}

/** One prompt and how many responses are wanted. Response `i` is drawn from the random stream (`seed`, `from + i`). */
export interface GenerateRequest {
  /** Unique among the requests in flight. */
  readonly requestId: string;
  readonly promptIds: Int32Array;
  readonly n: number;
  /** What was drawn of each response before, here or elsewhere; `n` long. Only for engines that resume. */
  readonly begun?: readonly BegunResponse[];
  /** Stream of the first response. Default 0. */
  readonly from?: number;
  readonly sampling: SamplingOptions;
  readonly seed: number;
}

/** A response that was begun and interrupted: it goes on after these tokens as if it had never stopped. */
export interface BegunResponse {
  readonly responseIds: Int32Array;
  /** Of each response token; response length. */
  readonly logprobs: Float32Array;
  /** How it ended, if it did; `null` when it goes on. */
  readonly finish: "stop" | "length" | null;
}

/** State of an engine as its health check sees it. */
export type HealthState = "starting" | "up" | "unhealthy" | "stopping" | "asleep";

/**
 * New weights for a rollout engine: bytes that are brought into the engine's own memory, the parts of an engine of several ranks, a ticket with which
 * each process of a replica takes its own part, or a Hugging Face folder.
 */
export type WeightUpdate =
  | ({
      readonly version: number;
      readonly via: "inline";
    } & SectionSource)
  | {
      readonly version: number;
      readonly via: "shards";
      /** The section of each rank, as `rankSectionOf` lays it out. The engine takes the memory over. */
      readonly shards: readonly Uint8Array<ArrayBuffer>[];
    }
  | {
      readonly version: number;
      readonly via: "ranks";
      /** What each rank, 0 too, gives to `pull` of its `shards`. */
      readonly ticket: string;
      /** Takes the receipt of a rank. The update counts only with those of all ranks. @throws MUSTER_ERR_SHARD_RECEIPT for one of another update, build or part */
      arrived(receipt: string): void;
      /** Aborted when the version is not wanted any more. The weights in use stay then. */
      readonly signal: AbortSignal;
    }
  | { readonly version: number; readonly via: "disk"; readonly path: string };

/** Draws responses. */
export interface RolloutEngine {
  info(): EngineInfo;
  /** `deep` generates a token; otherwise only liveness is reported. Never throws for an unhealthy engine. */
  health(options: { readonly deep: boolean; readonly signal: AbortSignal }): Promise<{
    readonly ok: boolean;
    readonly state: HealthState;
    readonly detail?: string;
  }>;
  /**
   * Draws `n` responses per request.
   *
   * @returns One row of `n` responses per request, in order.
   * @throws The signal's reason once it is aborted; MUSTER_ERR_ENGINE_REQUEST_INVALID before anything is drawn.
   */
  generate(requests: readonly GenerateRequest[], signal: AbortSignal): Promise<readonly (readonly Generated[])[]>;
  /**
   * What is drawn so far of a request in flight: a copy, `n` long, in which responses that are not whole have the finish `abort`;
   * `null` when it is unknown or not begun. Engines that resume should have it, so that their death costs little.
   */
  drawn?(requestId: string): readonly Generated[] | null;
  /** Replaces the weights. Idempotent per version; waits for running calls to end unless they are paused with `keep`. */
  updateWeights(update: WeightUpdate): Promise<void>;
  /** Version of the weights in use, `null` before the first update. */
  weightVersion(): number | null;
  /** Ends the named requests with finish `abort`; unknown ids are ignored. */
  abort(requestIds: readonly string[] | "all"): Promise<void>;
  /** Holds new calls until `resume`. Running calls: `abort` ends them, `drain` lets them finish, `keep` freezes them. */
  pause(mode: "abort" | "drain" | "keep"): Promise<void>;
  resume(): Promise<void>;
  /** How several ranks want the tensors cut; for engines that take weights as shards. */
  rankTensors?(): readonly RankTensor[];
  /** `run` is called once, with the cause, should the engine be lost for good before it is closed. For engines that can lose a part of themselves. */
  onLost?(run: (cause: Error) => void): void;
  close(): Promise<void>;
}

/** Complete training state as bytes: weights, and the optimizer with everything it needs. */
export interface StateSections {
  /** Tensors in the order of {@link PolicyInfo.tensors}. */
  readonly weights: Uint8Array;
  /** First moments, second moments, update counter. */
  readonly optimizer: Uint8Array;
}

/** A complete training state where it lies. */
export type StateViews = { readonly [section in keyof StateSections]: SectionBytes };

/** A section that can be brought into memory of an engine. */
export interface SectionSource {
  /** Size of the section. */
  readonly bytes: number;
  /** Fills memory with the bytes from `from` on; with all of them where that is left out. The engine touches none of it until the promise settles. */
  copyTo(into: Uint8Array, from?: number): Promise<void>;
}

/** Where a complete training state comes from. */
export type StateSource = { readonly [section in keyof StateSections]: SectionSource };

/** One response to learn from. */
export interface TrainSample {
  /** Prompt and response. */
  readonly tokens: Int32Array;
  readonly promptLength: number;
  /** Of each response token when it was drawn; response length. */
  readonly logprobs: Float32Array;
  readonly advantage: number;
  /** Of each response token, where tokens of one response differ; `advantage` is that of the first then. */
  readonly advantages?: Float32Array;
  /** Of each of its tokens in the loss, before division by the normalizer; absent: 1. */
  readonly weight?: number;
  /** 1 where a response token takes part in the loss; absent when all do. */
  readonly lossMask?: Uint8Array;
}

/** Sums over the response tokens of one micro-shard; shards add up. */
export interface ShardStats {
  readonly tokens: number;
  /** Tokens whose ratio was clipped, hence without gradient. */
  readonly clipped: number;
  /** KL(old ‖ new), the non-negative estimator r − 1 − log r. */
  readonly klSum: number;
  readonly entropySum: number;
  /** Loss of the tokens, before weights and division by the normalizer: of GRPO the clipped surrogate, negated. */
  readonly lossSum: number;
  /** |trained − sampled| log-probability, nats: its sum over the tokens, and the largest of one token. Absent where the engine does not count it. */
  readonly logprobGapSum?: number | undefined;
  readonly logprobGapMax?: number | undefined;
  /** KL(trained ‖ reference) by the estimator k3, whichever the loss has; absent where the loss has no divergence, or the engine does not count it. */
  readonly referenceKlSum?: number | undefined;
}

/** What a policy engine adds to {@link EngineInfo}. */
export interface PolicyInfo extends EngineInfo {
  /** Where each tensor lies in the weights section. Names and order are those of the Hugging Face state dict. */
  readonly tensors: readonly PlacedTensor[];
  readonly weightsBytes: number;
  readonly optimizerBytes: number;
  readonly gradientElements: number;
}

/** What the loss is, beside the clip. An engine says in its description what of it it can: {@link LossFeature}. */
export type LossOptions = Pick<
  Training,
  "algorithm" | "klCoefficient" | "klEstimator" | "entropyCoefficient" | "staleCorrection" | "staleCap"
>;

/**
 * What an engine can besides the clipped surrogate of a token, by name: the objectives of GSPO, CISPO, RLOO and supervised fine-tuning; weights of samples;
 * advantages of tokens; a divergence from a reference policy; a bonus for entropy; the weights of stale tokens.
 */
export const lossFeatures = [
  ...(["gspo", "cispo", "rloo", "sft"] as const),
  ...(["sample-weights", "token-advantages", "reference", "entropy", "stale"] as const),
] as const;

/** One of {@link lossFeatures}. */
export type LossFeature = (typeof lossFeatures)[number];

/** Options of {@link PolicyEngine.accumulate}. */
export interface AccumulateOptions {
  /** What the algorithm of the job adds; absent: the clipped surrogate alone. */
  readonly loss?: LossOptions;
  /** Of the whole minibatch: the divisor of the loss. */
  readonly normalizer: number;
  /** Ratio bounds are 1 − clipLow and 1 + clipHigh. */
  readonly clipLow: number;
  readonly clipHigh: number;
  /** At which the samples were drawn, > 0: their log-probs and those that are compared with them are of logits / temperature. */
  readonly temperature: number;
  /** Number of the micro-shard, by which the other processes of a trainer find their memory for it: `gradient` of their `RankTraining`. */
  readonly shard?: number;
  /** Of the mesh that sums it; `gradient` of the other processes wants it back. */
  readonly epoch?: number;
  /** Receives the gradient; `gradientElements` long. What was there is overwritten. */
  readonly out: GradientMemory;
  readonly signal: AbortSignal;
}

/** AdamW (arXiv 1711.05101) after clipping to the global norm `clipNorm` (0 = off). */
export interface OptimizerOptions {
  readonly lr: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  readonly clipNorm: number;
}

/** Options of {@link PolicyEngine.stage}. */
export interface StageOptions extends OptimizerOptions {
  /** Aborted when the step is not wanted any more; absent: never. An engine whose update takes long ends it then, with the signal's reason; the candidate is discarded. */
  readonly signal?: AbortSignal;
}

/**
 * Trains. Live state is what was committed; the candidate is the outcome of a step that may still be discarded.
 * It becomes visible only through `promote`, after the controller's commit.
 */
export interface PolicyEngine {
  info(): PolicyInfo;
  /** Sets live weights from a seed or a Hugging Face folder; the optimizer starts at zero. Drops the candidate. */
  initialize(
    source: { readonly kind: "seed"; readonly seed: number } | { readonly kind: "folder"; readonly path: string },
  ): Promise<void>;
  /** Views of the live state: copy them before the next await. */
  state(): StateViews;
  /**
   * Sets the live state. Drops the candidate. While it runs, and when it fails, the live state is what it was.
   *
   * @throws MUSTER_ERR_ENGINE_STATE_LENGTH; what the source throws.
   */
  restore(source: StateSource): Promise<void>;
  /** Starts a step: candidate := copy of live. */
  begin(): void;
  /** Writes the gradient of one micro-shard at the candidate weights to `out`. The samples' order does not depend on time. */
  accumulate(samples: readonly TrainSample[], options: AccumulateOptions): Promise<ShardStats>;
  /** Log-probabilities of the response tokens under the reference policy. For engines that say `reference`, and for any engine beside a reference worker. */
  referenceLogprobs?(
    samples: readonly TrainSample[],
    options: Pick<AccumulateOptions, "temperature" | "signal"> & {
      /** Hears of parts that are done, and now and then while the program that computes them starts again, where it takes long. */
      readonly onPart?: () => void;
    },
  ): Promise<readonly Float32Array[]>;
  /** Applies one update to the candidate. A norm that is not finite leaves the candidate as it was. */
  stage(
    gradient: GradientMemory,
    options: StageOptions,
  ): Promise<{ readonly gradNorm: number; readonly finite: boolean }>;
  /** Views of the candidate: copy them before the next await. */
  candidate(): StateViews;
  /** The candidate becomes the live state. */
  promote(): void;
  /** Forgets the candidate; harmless when there is none. */
  discard(): void;
  /** As {@link RolloutEngine.onLost}. */
  onLost?(run: (cause: Error) => void): void;
  /**
   * Hands a ticket to `perform` of the `RankTraining` of every rank, rank 0 too, after what it was told before. For trainers whose processes each have a
   * shard: `state`, `candidate` and `gradientElements` of theirs are those of rank 0's shard, and `restore` is not called.
   *
   * @returns What each rank answered, in the order of the ranks. @throws when a rank is gone.
   */
  performAll?(ticket: string, signal: AbortSignal): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Judges one response. May be slow, may fail: it is isolated per trajectory. */
export interface Reward {
  readonly name: string;
  /** It ends by itself, in a time of its own, and runs no code of others in this process: judged without a deadline and a boundary. */
  readonly isBounded?: true;
  /** @returns A number between −`rewardMax` and `rewardMax` of `@muster/base`, which are a thousand million, alone or with what it is made of. */
  score(input: RewardInput, signal: AbortSignal): Promise<RewardAnswer>;
  /** Calls `run` now and then while the program that computes it starts again or does not give way, in a bounded time: who waits for it does not hang. */
  onStarting?(run: () => void): void;
  /** Ends what it has running, for good. */
  close?(): Promise<void>;
}
