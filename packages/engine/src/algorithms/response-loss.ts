/** The loss of one response and its derivatives by what a forward pass gives. Pure; every algorithm and every engine in this process uses it. */
import type { Training } from "@muster/protocol";
import type { LossOptions } from "../engine.ts";
import type { ResponseTerms } from "./algorithm.ts";
import { algorithmOf } from "./algorithm-of.ts";
import { sequenceRatio } from "./gspo.ts";
import { divergenceOf } from "./kl.ts";
import { staleWeight } from "./stale.ts";

/** One response, what was computed of it, and how it counts. */
export interface ResponseLoss extends Omit<ResponseTerms, "old"> {
  /** When it was drawn; the old policy unless `before` is there. */
  readonly sampled: ArrayLike<number>;
  /** Log-probabilities under the weights that the step began with; for {@link LossOptions.staleCorrection}. */
  readonly before?: ArrayLike<number> | undefined;
  /** Log-probabilities under the reference policy; for a divergence in the loss. */
  readonly reference?: ArrayLike<number> | undefined;
  readonly entropies: ArrayLike<number>;
  /** Of each of its tokens, before division by the normalizer. */
  readonly weight: number;
  readonly normalizer: number;
}

/** What the loss of a token is, and its derivatives: by the token's log-probability, and by the entropy of its distribution. */
export interface TokenLoss {
  /** Without weight and normalizer. */
  readonly value: number;
  readonly byLogprob: number;
  readonly byEntropy: number;
  readonly clipped: boolean;
}

/** Hands over each token in the loss: −w · objective + β · KL − c · entropy, times weight / normalizer in the derivatives. */
export function responseLoss(
  response: ResponseLoss,
  loss: LossOptions,
  take: (t: number, token: TokenLoss) => void,
): void {
  const { logprobs, sampled, before, reference, entropies, exp, weight, normalizer } = response;
  const algorithm = algorithmOf(loss.algorithm);
  const correction = staleWeights(response, loss, algorithm.ratios);
  algorithm.objective({ ...response, old: before ?? sampled }, (t, { value, slope, clipped }) => {
    const stale = correction(t);
    let [sum, byLogprob] = [-stale * value, -stale * slope];
    if (loss.klCoefficient > 0 && reference) {
      const divergence = divergenceOf(loss.klEstimator, logprobs[t]! - reference[t]!, exp);
      sum += loss.klCoefficient * divergence.value;
      byLogprob += loss.klCoefficient * divergence.slope;
    }
    if (loss.entropyCoefficient > 0) sum -= loss.entropyCoefficient * entropies[t]!;
    take(t, {
      value: sum,
      byLogprob: (byLogprob * weight) / normalizer,
      byEntropy: loss.entropyCoefficient > 0 ? (-loss.entropyCoefficient * weight) / normalizer : 0,
      clipped,
    });
  });
}

/** Weights of stale tokens: each its own, or the one of its response where ratios are of responses. */
function staleWeights(
  { logprobs, sampled, before, mask, exp }: ResponseLoss,
  loss: Pick<Training, "staleCorrection" | "staleCap">,
  ratios: "token" | "sequence",
): (t: number) => number {
  if (!before || loss.staleCorrection === "off") return () => 1;
  const change = (t: number): number => before[t]! - sampled[t]!;
  if (ratios === "token") return (t) => staleWeight(exp(change(t)), loss);
  const whole = staleWeight(sequenceRatio(logprobs.length, change, { mask, exp }), loss);
  return () => whole;
}
