/** What an algorithm is made of: advantages of a group or of a batch, and the objective of a response. All of it is pure. */
import type { AlgorithmName } from "@muster/protocol";

/**
 * Advantages of the members of one group.
 *
 * @param rewards - Of all members, with what is taken off for length or divergence.
 * @param valid - False for placeholders: they neither shift a baseline nor get an advantage.
 * @returns One number per member; 0 where there is nothing to learn.
 */
export type GroupAdvantages = (rewards: readonly number[], valid: readonly boolean[]) => number[];

/**
 * Advantages over all tokens of a step.
 *
 * @param returns - Of each response, one number per token in the loss.
 * @returns The same shape.
 */
export type BatchAdvantages = (returns: readonly (readonly number[])[]) => number[][];

/** Ratio bounds are 1 − `clipLow` and 1 + `clipHigh`. */
export interface Clip {
  readonly clipLow: number;
  readonly clipHigh: number;
}

/** One response as its objective sees it. Tokens outside of the loss have a mask of 0. */
export interface ResponseTerms {
  /** Log-probability of each response token under the weights that are trained. */
  readonly logprobs: ArrayLike<number>;
  /** The same under the old policy, which the ratio is taken against. */
  readonly old: ArrayLike<number>;
  /** Of the whole response. */
  readonly advantage: number;
  /** Of each token, where tokens differ. */
  readonly advantages?: ArrayLike<number> | undefined;
  readonly mask?: ArrayLike<number> | undefined;
  readonly clip: Clip;
  /** eˣ; an engine's own where equal bits matter. */
  readonly exp: (x: number) => number;
}

/** What the objective says of one token. */
export interface TokenTerm {
  /** To be maximised. */
  readonly value: number;
  /** Derivative of the summed values of the response by this token's log-probability. */
  readonly slope: number;
  /** The ratio was outside of its bounds, and the objective held it there. */
  readonly clipped: boolean;
}

/** Hands over the term of each token in the loss, in order. */
export type Objective = (response: ResponseTerms, take: (t: number, term: TokenTerm) => void) => void;

/** An algorithm. */
export interface Algorithm {
  readonly name: AlgorithmName;
  /** Advantages of a group; `null` where the baseline is that of the batch. */
  readonly ofGroup: GroupAdvantages | null;
  /** Advantages of the batch, from returns of tokens; `null` where groups are enough. */
  readonly ofBatch: BatchAdvantages | null;
  readonly objective: Objective;
  /** Whether importance ratios are of tokens or of whole responses. */
  readonly ratios: "token" | "sequence";
}

/** An objective that looks at one token at a time. */
export function perToken(
  term: (token: {
    readonly logprob: number;
    readonly ratio: () => number;
    readonly advantage: number;
    readonly clip: Clip;
  }) => TokenTerm,
): Objective {
  return ({ logprobs, old, advantage, advantages, mask, clip, exp }, take) => {
    for (let t = 0; t < logprobs.length; t++) {
      if (mask && mask[t] !== 1) continue;
      const logprob = logprobs[t]!;
      const ratio = () => exp(logprob - old[t]!);
      take(t, term({ logprob, ratio, advantage: advantages?.[t] ?? advantage, clip }));
    }
  };
}
