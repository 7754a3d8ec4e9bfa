/**
 * GSPO (arXiv 2507.18071, equations 5 to 7): one importance ratio per response, the geometric mean of its tokens' ratios, which is clipped as a
 * whole. The advantage is GRPO's (equation 6).
 */
import type { Algorithm, Objective } from "./algorithm.ts";
import { advantagesOf, surrogateOf } from "./grpo.ts";

/** e to the mean of `of` over the tokens in the loss: the ratio of a response (equation 7). 1 without such tokens. */
export function sequenceRatio(
  length: number,
  of: (t: number) => number,
  { mask, exp }: { readonly mask?: ArrayLike<number> | undefined; readonly exp: (x: number) => number },
): number {
  let [sum, count] = [0, 0];
  for (let t = 0; t < length; t++) {
    if (mask && mask[t] !== 1) continue;
    sum += of(t);
    count += 1;
  }
  return count === 0 ? 1 : exp(sum / count);
}

/** Each token has the surrogate of its response; the slope is s · A, since d log s / d log π = 1 / |y| and there are |y| of them. */
const objective: Objective = (response, take) => {
  const { logprobs, old, mask, advantage, clip } = response;
  const ratio = sequenceRatio(logprobs.length, (t) => logprobs[t]! - old[t]!, response);
  const term = surrogateOf(ratio, advantage, clip);
  for (let t = 0; t < logprobs.length; t++) if (!mask || mask[t] === 1) take(t, term);
};

/** GSPO. */
export const gspo: Algorithm = { name: "gspo", ofGroup: advantagesOf, ofBatch: null, objective, ratios: "sequence" };
