/** Where agents ask, as an interface: the endpoints themselves are in a package that this one does not know. */
import type { ChatMessage, Generated, RewardAnswer, SamplingOptions, TaskTokenizer } from "@muster/base";

/** A trajectory of an episode, as its endpoint records it. */
export interface EpisodeSample {
  readonly tokens: readonly number[];
  readonly promptLength: number;
  readonly lossMask: readonly number[];
  readonly logprobs: readonly number[];
  /** `null` where nothing was drawn. */
  readonly versions: readonly (string | null)[];
}

/** What happened in an episode. */
export interface EpisodeOutcome {
  readonly turns: number;
  readonly reward: RewardAnswer | null;
  readonly finish: "stop" | "length";
  readonly samples: readonly EpisodeSample[];
  readonly messages: readonly ChatMessage[];
}

/** Where agents ask: the endpoints of sessions, which the router's package has. */
export interface EpisodePort {
  begin(options: {
    readonly name: string;
    readonly tokenizer: TaskTokenizer & { readonly stopTokenIds: readonly number[] };
    readonly sampling: SamplingOptions;
    readonly model: string;
    readonly maxContext: number;
    readonly draw: (turn: {
      readonly promptIds: Int32Array;
      readonly sampling: Partial<SamplingOptions>;
      readonly seed: number;
      readonly isOver?: (soFar: Generated) => boolean;
    }) => Promise<Generated>;
    readonly failed: (error: unknown) => void;
  }): Promise<{
    readonly url: string;
    readonly key: string;
    readonly ended: Promise<void>;
    refusal(): string | null;
    finish(): Promise<EpisodeOutcome>;
  }>;
  close(): Promise<void>;
}
