/** What groups are collected with. */
import type { Clock, Logger, Prompt } from "@muster/base";
import type { Task } from "@muster/data";
import type { BegunGroup, FailurePolicy } from "@muster/protocol";
import type { Reward, RolloutEngine, SamplingOptions } from "../engine.ts";
import type { GenerateFunction } from "./generate-function.ts";
import type { Save } from "./save-grown.ts";

/** A prompt and the index of its group within the step. */
export interface GroupPrompt {
  readonly index: number;
  readonly attempt: number;
  /** What is asked; why there is nothing to ask where the row of the data makes no prompt. */
  readonly prompt: Prompt | { readonly fault: unknown };
  /** What an earlier holder drew of it; used for modules, and by engines that resume. */
  readonly begun?: BegunGroup;
}

/** What {@link collectGroups} works on. */
export interface CollectOptions {
  readonly engine: RolloutEngine;
  readonly reward: Reward;
  /** Generates a sample; `null` or absent for the engine's own way. */
  readonly generate?: GenerateFunction | null;
  /** Responses of one sample, declared. Default 1. */
  readonly fanOut?: number;
  readonly task: Task;
  readonly prompts: readonly GroupPrompt[];
  /** Samples of a prompt. */
  readonly groupSize: number;
  readonly sampling: SamplingOptions;
  /** Seed of the job and step: with the group index they decide every random number. */
  readonly seed: number;
  readonly step: number;
  /** Weight version the groups must come from. */
  readonly version: number;
  /** Deadline of the reward of one trajectory. */
  readonly rewardTimeoutMs: number;
  /** Deadline of one call of `generate`. Needed with it. */
  readonly generateTimeoutMs?: number;
  /** Which failures of a trajectory are tried again. Default {@link failureDefaults}. */
  readonly failure?: FailurePolicy;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Once aborted, drawing stops: what is whole is finished, the rest is handed back. */
  readonly handBack?: HandBack;
  /** Takes what is drawn of unfinished groups now and then, so that little is lost with this process. */
  readonly save?: Save;
  /** Hears of each sample of a generate function that is done, whatever became of it, and of each that is judged: a call may take long while it goes on. */
  readonly settled?: () => void;
  readonly logger?: Logger;
}

/** How a call is asked to hand back what it has not finished. */
export interface HandBack {
  readonly signal: AbortSignal;
  /** Takes the groups with unfinished responses; they are not among those that the call returns. */
  readonly take: (begun: readonly BegunGroup[]) => void;
}
