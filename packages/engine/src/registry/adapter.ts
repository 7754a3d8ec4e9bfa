/**
 * What an engine is to everybody else: how its table of the job file looks, what its model is, how it is opened. Nothing outside of an adapter
 * knows the shape of its model or its arithmetic.
 */
import type { ModelNeeds } from "@muster/data";
import type { JobConfig, z } from "@muster/protocol";
import type { PlacedTensor, Rule } from "@muster/tensors";
import type { LossFeature, PolicyEngine, RolloutEngine } from "../engine.ts";
import type { RankLayout, RankShards } from "./rank-layout.ts";
import type { RankTraining } from "./rank-training.ts";

/** What an engine can be in a job: it trains, or it samples. */
export type EngineRole = "policy" | "rollout";

/** What an engine says of itself before it is opened, from its options and the needs of the task alone. */
export interface EngineDescription {
  readonly modelId: string;
  /** Number of token ids, at least that of the task. */
  readonly vocab: number;
  /** Longest sequence in tokens. */
  readonly maxContext: number;
  /** Digest of the tokenizer that the model was made for. */
  readonly tokenizer: string;
  /** The table of tensors that are published, or that are taken: names and order of the Hugging Face state dict. */
  readonly tensors: readonly PlacedTensor[];
  /**
   * Of a sampler: what makes tensors of trainers with other names into those of {@link tensors}. Another order, and f32, bf16 and f16 for each other, need no
   * rules. For samplers of one process that take their weights `inline`.
   */
  readonly conversion?: readonly Rule[];
  /** `config.json` of a checkpoint. */
  readonly modelConfig: Readonly<Record<string, unknown>>;
  /** Build of the program that computes, where {@link EngineAdapter.build} is only that of what speaks to it. */
  readonly program?: string;
  /** Equal input gives equal bits: what votes compare. */
  readonly deterministic: boolean;
  /** Ways on which a sampler takes weights: `inline` whole, `shards` by rank. */
  readonly transports: readonly ("inline" | "shards")[];
  /** `raw`: log-probs are those before temperature and truncation. */
  readonly logprobs: "sampled-dist" | "raw";
  /** What a trainer can of the losses of a job; absent: the clipped surrogate of tokens alone. */
  readonly losses?: readonly LossFeature[];
}

/** One fault that an engine found in a job, as one sentence with its fix. */
export interface EngineProblem {
  /** The keys of the job file that it is about. */
  readonly keys: readonly string[];
  readonly text: string;
}

/** One finding of `muster doctor`. */
export interface EngineFinding {
  readonly state: "ok" | "warn" | "missing";
  readonly name: string;
  readonly detail: string;
  /** What to do; `null` where nothing is wrong. */
  readonly fix: string | null;
}

/** An engine's own table, as its schema returns it: plain values by name. */
export type EngineOptions = Readonly<Record<string, string | number | boolean>>;

/**
 * One process of a replica of several. The same stands in its environment, as programs of several processes expect it: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`,
 * `LOCAL_WORLD_SIZE`, `NODE_RANK`, `MASTER_ADDR`, `MASTER_PORT`.
 */
export interface ReplicaRank {
  readonly replica: string;
  /** Of the whole replica: no process of another life may be let in. */
  readonly life: number;
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly nodeRank: number;
  /** Where rank 0 listens and the others meet it; the port is kept free for it. */
  readonly master: { readonly address: string; readonly port: number };
}

/** What an engine is opened for. */
export interface EngineOpening {
  readonly needs: ModelNeeds;
  readonly config: JobConfig;
  /** What the job's trainers say of themselves, for samplers that take their model. */
  readonly trainer?: EngineDescription;
  /** Of a replica of several processes: which one this is. */
  readonly rank?: ReplicaRank;
  /** Of such a replica, where its engine has a {@link EngineAdapter.layout}: how this process comes to its part of the weights. */
  readonly shards?: RankShards;
  /** Of a trainer of several processes that {@link EngineAdapter.trainsInShards}: what this process does with its shard. */
  readonly training?: RankTraining;
}

/** What a process does that is not rank 0 of its replica. */
export interface RankProgram {
  /** Rejects with the cause when it can not go on; resolves when rank 0 has let it go. Either ends the process. */
  readonly ended: Promise<void>;
  /** Ends it: its node asks it to leave. */
  close(): Promise<void>;
}

/** One kind of engine: how it is configured, checked, opened. */
export interface EngineAdapter {
  /** Name of the kind, a-z, 0-9 and `-`; its table of the job file is `[engine.<kind>]`. */
  readonly kind: string;
  readonly roles: readonly EngineRole[];
  /** Name of its table where that is another one. */
  readonly table?: string;
  /** A sampler of whatever model the job's trainers make: `describe` and `openRollout` get what these say of themselves. */
  readonly takesTrainersModel?: true;
  /** Its own table: a strict object of texts, numbers and booleans, each with a default and a description. */
  readonly schema: z.ZodObject;
  /** Exact build: two engines of one build compute the same bits. At most 128 characters. */
  build(): string;
  /**
   * Pure but for files that the options name. `trainer` comes where {@link takesTrainersModel} says so.
   *
   * @throws with one sentence for options that make no model.
   */
  describe(options: EngineOptions, needs: ModelNeeds, trainer?: EngineDescription): EngineDescription;
  /** What this engine knows about its own limits; none when the job can run. Pure. */
  check(options: EngineOptions, config: JobConfig): readonly EngineProblem[];
  /**
   * What of its options stands against equal responses to equal requests (of a sampler), and equal bits of equal input (of a trainer); absent: whatever
   * {@link describe} says of `deterministic`. Pure.
   */
  repeats?(options: EngineOptions, role: EngineRole): readonly EngineProblem[];
  /** Whether a folder has the first weights of a job, as far as that is known without a process of the engine. @throws with one sentence for weights that do not fit */
  checkWeights?(options: EngineOptions, config: JobConfig, path: string): Promise<void>;
  /** Whether this host has what the engine needs; of an engine that is a server somewhere, with its address, what that is. */
  doctor(given?: { readonly url?: string; readonly key?: string }): Promise<readonly EngineFinding[]>;
  openPolicy?(options: EngineOptions, opening: EngineOpening): Promise<PolicyEngine>;
  openRollout?(options: EngineOptions, opening: EngineOpening): Promise<RolloutEngine>;
  /**
   * How the processes of a replica of several have the model. Those of a sampler each take their own part of a version: updates come `via: "ranks"` then.
   * Absent: rank 0 takes it whole. Trainers may have it otherwise than samplers. Pure.
   */
  layout?(options: EngineOptions, tensors: readonly PlacedTensor[], size: number, role: EngineRole): RankLayout;
  /**
   * Each process of a trainer of several has a shard of the training state, as {@link layout} cuts the weights, and no process has all of it. Its rank 0 has
   * `performAll` then. Absent: rank 0 has the whole state.
   */
  readonly trainsInShards?: true;
  /**
   * What the processes of a replica do that are not its rank 0, which is opened as `openRollout` or `openPolicy` is; for engines of several processes.
   * They say nothing to anybody but each other: Muster watches that they are there.
   */
  openRank?(
    options: EngineOptions,
    opening: EngineOpening & { readonly rank: ReplicaRank },
    role: EngineRole,
  ): Promise<RankProgram>;
}
