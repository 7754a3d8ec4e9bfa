/**
 * The losses of the papers as one number each, in double precision and as they are written down: sums over groups, responses and tokens, of ratios of
 * probabilities. Nothing here is shared with the code under test; derivatives are differences of these numbers.
 */

/** One response: what was drawn under which probabilities, and what it was worth. */
export interface Drawn {
  readonly reward: number;
  readonly valid: boolean;
  /** Log-probabilities of its tokens when it was drawn. */
  readonly drawn: readonly number[];
  /** The same when the step began, and under the reference policy. */
  readonly before: readonly number[];
  readonly anchor: readonly number[];
  readonly entropy: readonly number[];
  /** Tokens in the loss. */
  readonly inLoss: readonly boolean[];
}

/** Now, by group, response and token. */
export type Now = readonly (readonly (readonly number[])[])[];

const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length;
const std = (xs: readonly number[]): number => Math.sqrt(mean(xs.map((x) => (x - mean(xs)) ** 2)));
const clamp = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high);

/** Tokens of the loss with their place, of responses that are kept. */
interface Token {
  readonly g: number;
  readonly i: number;
  readonly t: number;
}

const validRewards = (group: readonly Drawn[]): readonly number[] =>
  group.filter(({ valid }) => valid).map(({ reward }) => reward);

const isKept = (group: readonly Drawn[], i: number): boolean => group[i]!.valid && std(validRewards(group)) > 1e-6;

const responsesOf = (groups: readonly (readonly Drawn[])[], keep = isKept): readonly Omit<Token, "t">[] =>
  groups.flatMap((group, g) => group.flatMap((_, i) => (keep(group, i) ? [{ g, i }] : [])));

const tokensOf = (response: Drawn): readonly number[] => response.inLoss.flatMap((isIn, t) => (isIn ? [t] : []));

/** A paper's loss. `frozen` is where gradients do not go: equal to `now` where the loss is taken. */
export type Loss = (groups: readonly (readonly Drawn[])[], now: Now, frozen: Now) => number;

/** Each response's clipped surrogate, token by token. */
function surrogates(
  groups: readonly (readonly Drawn[])[],
  now: Now,
  { g, i, advantage, low, high }: { g: number; i: number; advantage: number; low: number; high: number },
): number[] {
  const response = groups[g]![i]!;
  return tokensOf(response).map((t) => {
    const ratio = Math.exp(now[g]![i]![t]!) / Math.exp(response.drawn[t]!);
    return Math.min(ratio * advantage, clamp(ratio, 1 - low, 1 + high) * advantage);
  });
}

const standardised = (group: readonly Drawn[], reward: number): number =>
  (reward - mean(validRewards(group))) / (std(validRewards(group)) + 1e-4);

/** DeepSeekMath, equation 3: the mean over tokens of a response, then over responses. */
export const grpoOfThePaper: Loss = (groups, now) => {
  const all = responsesOf(groups).map(({ g, i }) =>
    mean(
      surrogates(groups, now, {
        g,
        i,
        advantage: standardised(groups[g]!, groups[g]![i]!.reward),
        low: 0.2,
        high: 0.28,
      }),
    ),
  );
  return -mean(all);
};

/** DAPO, equation 12: one mean over all tokens. */
export const dapoLoss: Loss = (groups, now) => {
  const all = responsesOf(groups).flatMap(({ g, i }) =>
    surrogates(groups, now, { g, i, advantage: standardised(groups[g]!, groups[g]![i]!.reward), low: 0.2, high: 0.28 }),
  );
  return -mean(all);
};

/** Dr. GRPO, listing 1: the sum over tokens divided by the generation budget, no spread in the advantage. */
export const drGrpoLoss =
  (budget: number): Loss =>
  (groups, now) => {
    const all = responsesOf(groups).map(({ g, i }) => {
      const advantage = groups[g]![i]!.reward - mean(validRewards(groups[g]!));
      return surrogates(groups, now, { g, i, advantage, low: 0.2, high: 0.2 }).reduce((a, b) => a + b, 0) / budget;
    });
    return -mean(all);
  };

/** GSPO, equation 5, with the ratio of equation 7 as a root of a product. */
export const gspoLoss =
  (low: number, high: number): Loss =>
  (groups, now) => {
    const all = responsesOf(groups).map(({ g, i }) => {
      const response = groups[g]![i]!;
      const tokens = tokensOf(response);
      const whole = tokens.reduce((p, t) => p * (Math.exp(now[g]![i]![t]!) / Math.exp(response.drawn[t]!)), 1);
      const s = whole ** (1 / tokens.length);
      const advantage = standardised(groups[g]!, response.reward);
      return Math.min(s * advantage, clamp(s, 1 - low, 1 + high) * advantage);
    });
    return -mean(all);
  };

/** MiniMax-M1, equations 4 and 5. */
export const cispoLoss: Loss = (groups, now, frozen) => {
  const all = responsesOf(groups).flatMap(({ g, i }) => {
    const response = groups[g]![i]!;
    return tokensOf(response).map((t) => {
      const ratio = Math.exp(frozen[g]![i]![t]!) / Math.exp(response.drawn[t]!);
      return clamp(ratio, 0, 1.3) * standardised(groups[g]!, response.reward) * now[g]![i]![t]!;
    });
  });
  return -mean(all);
};

/** RLOO: the mean over responses of (R − mean of the others) · log π(y). */
export const rlooLoss: Loss = (groups, now) => {
  const all = responsesOf(groups).map(({ g, i }) => {
    const others = groups[g]!.filter(({ valid }, j) => valid && j !== i).map(({ reward }) => reward);
    const logprob = tokensOf(groups[g]![i]!).reduce((sum, t) => sum + now[g]![i]![t]!, 0);
    return (groups[g]![i]!.reward - mean(others)) * logprob;
  });
  return -mean(all);
};

/** REINFORCE++: returns with the k1 divergence from each token on, normalised over the tokens of the batch. */
export const reinforcePlusPlusLoss =
  (beta: number): Loss =>
  (groups, now) => {
    const kept = responsesOf(groups, (group, i) => group[i]!.valid);
    const returns = kept.map(({ g, i }) => {
      const { reward, drawn, anchor } = groups[g]![i]!;
      const tokens = tokensOf(groups[g]![i]!);
      return tokens.map((t) => {
        const later = tokens.filter((u) => u >= t);
        return reward - beta * later.reduce((sum, u) => sum + (drawn[u]! - anchor[u]!), 0);
      });
    });
    const all = returns.flat();
    const terms = kept.flatMap(({ g, i }, k) => {
      const response = groups[g]![i]!;
      return tokensOf(response).map((t, n) => {
        const advantage = (returns[k]![n]! - mean(all)) / Math.sqrt(std(all) ** 2 + 1e-8);
        const ratio = Math.exp(now[g]![i]![t]!) / Math.exp(response.drawn[t]!);
        return Math.min(ratio * advantage, clamp(ratio, 0.8, 1.2) * advantage);
      });
    });
    return -mean(terms);
  };

/** Cross-entropy of given tokens, over all of them: what a reward says, and what was drawn, does not matter. */
export const supervisedLoss: Loss = (groups, now) => {
  const kept = responsesOf(groups, (group, i) => group[i]!.valid);
  const all = kept.flatMap(({ g, i }) => tokensOf(groups[g]![i]!).map((t) => Math.log(Math.exp(now[g]![i]![t]!))));
  return -mean(all);
};

/** GRPO's tokens with stale weights, a divergence in the loss, and the bonus for entropy; all valid responses take part. */
export const extendedLoss =
  (extra: {
    readonly beta: number;
    readonly divergence: (now: number, anchor: number) => number;
    readonly bonus: number;
    readonly stale: (ratio: number) => number;
  }): Loss =>
  (groups, now) => {
    const kept = responsesOf(groups, (group, i) => group[i]!.valid);
    const all = kept.flatMap(({ g, i }) => {
      const response = groups[g]![i]!;
      const advantage = standardised(groups[g]!, response.reward);
      return tokensOf(response).map((t) => {
        const ratio = Math.exp(now[g]![i]![t]!) / Math.exp(response.before[t]!);
        const surrogate = Math.min(ratio * advantage, clamp(ratio, 0.8, 1.28) * advantage);
        const weight = extra.stale(Math.exp(response.before[t]!) / Math.exp(response.drawn[t]!));
        const divergence = extra.divergence(now[g]![i]![t]!, response.anchor[t]!);
        return weight * surrogate - extra.beta * divergence + extra.bonus * response.entropy[t]!;
      });
    });
    return -mean(all);
  };

/** A reward with the whole divergence of the response taken off it. */
export const penalised = (groups: readonly (readonly Drawn[])[], beta: number, of: (d: number) => number) =>
  groups.map((group) =>
    group.map((response) => ({
      ...response,
      reward:
        response.reward -
        beta * tokensOf(response).reduce((sum, t) => sum + of(response.drawn[t]! - response.anchor[t]!), 0),
    })),
  );
