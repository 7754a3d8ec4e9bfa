/** How a batch becomes a loss: the part of a job that names an algorithm and what is added to it. */
import { z } from "zod";
import { countSchema } from "./envelope.ts";

/** Names of the algorithms, as a job file has them. */
export const algorithmNames = ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce++", "sft"] as const;

/** Name of an algorithm. */
export type AlgorithmName = (typeof algorithmNames)[number];

/**
 * What the terms of tokens are averaged over: all tokens of a minibatch; the tokens of each response, then the responses; the tokens that a
 * response could have had (`sampling.max_new_tokens`), then the responses; the responses alone.
 */
export const aggregations = ["token", "sequence", "budget", "sum"] as const;

/** Estimators of a KL divergence by one sample: http://joschu.net/blog/kl-approx.html */
export const klEstimators = ["k1", "k2", "k3"] as const;

/** Where the divergence from the reference policy counts. */
export const klPlaces = ["loss", "reward"] as const;

/** What becomes of tokens that other weights drew than those that the step begins with. */
export const staleCorrections = ["off", "truncate", "mask"] as const;

/** Schema of the part. */
export const trainingSchema = z.strictObject({
  algorithm: z.enum(algorithmNames),
  aggregation: z.enum(aggregations),
  /** Groups of a step that are trained on, at most: the first with a spread of rewards. 0: all. */
  trainGroups: countSchema,
  /** Tokens before the longest response from which on a response loses reward. 0: none. */
  overlongTokens: countSchema,
  /** What the longest response loses. */
  overlongPenalty: z.number().min(0).max(1e6),
  klCoefficient: z.number().min(0).max(1e6),
  klEstimator: z.enum(klEstimators),
  klIn: z.enum(klPlaces),
  /** Absolute path of the reference policy's Hugging Face folder. `null`: the job's initial weights. */
  reference: z.string().min(1).max(4096).nullable(),
  entropyCoefficient: z.number().min(0).max(1e6),
  staleCorrection: z.enum(staleCorrections),
  /** Largest importance ratio of a stale token. */
  staleCap: z.number().min(1).max(1e6),
});

/** How a batch becomes a loss. */
export type Training = z.infer<typeof trainingSchema>;

/** What each algorithm brings along where a job file says nothing else. */
export const algorithmDefaults: Readonly<
  Record<
    AlgorithmName,
    Pick<Training, "aggregation"> & {
      readonly clipLow: number;
      readonly clipHigh: number;
      /** Responses of a prompt. */
      readonly groupSize: number;
      /** Optimizer updates of a step. */
      readonly minibatches: number;
      /** Share of the longest response that is over-long. */
      readonly overlongShare: number;
    }
  >
> = {
  grpo: { aggregation: "token", clipLow: 0.2, clipHigh: 0.28, groupSize: 8, minibatches: 2, overlongShare: 0 },
  dr_grpo: { aggregation: "budget", clipLow: 0.2, clipHigh: 0.2, groupSize: 8, minibatches: 2, overlongShare: 0 },
  dapo: { aggregation: "token", clipLow: 0.2, clipHigh: 0.28, groupSize: 8, minibatches: 2, overlongShare: 0.2 },
  gspo: { aggregation: "sequence", clipLow: 3e-4, clipHigh: 4e-4, groupSize: 8, minibatches: 2, overlongShare: 0 },
  cispo: { aggregation: "token", clipLow: 1, clipHigh: 4, groupSize: 8, minibatches: 2, overlongShare: 0 },
  rloo: { aggregation: "sum", clipLow: 0.2, clipHigh: 0.2, groupSize: 8, minibatches: 1, overlongShare: 0 },
  "reinforce++": { aggregation: "token", clipLow: 0.2, clipHigh: 0.2, groupSize: 8, minibatches: 2, overlongShare: 0 },
  sft: { aggregation: "token", clipLow: 0.2, clipHigh: 0.2, groupSize: 1, minibatches: 1, overlongShare: 0 },
};

/** Of a job that says nothing of it: GRPO with nothing added. */
export const trainingDefaults: Training = {
  algorithm: "grpo",
  aggregation: "token",
  trainGroups: 0,
  overlongTokens: 0,
  overlongPenalty: 1,
  klCoefficient: 0,
  klEstimator: "k3",
  klIn: "loss",
  reference: null,
  entropyCoefficient: 0,
  staleCorrection: "off",
  staleCap: 2,
};

/** Supervised fine-tuning: the response of a prompt is its right answer, which nobody draws and nobody judges. Pure. */
export function isSupervised({ training }: { readonly training?: Pick<Training, "algorithm"> | undefined }): boolean {
  return training?.algorithm === "sft";
}

/** Fewest valid trajectories of a group that teach: one that is drawn needs another to be compared with. Pure. */
export function validMinOf(job: { readonly training?: Pick<Training, "algorithm"> | undefined }): number {
  return isSupervised(job) ? 1 : 2;
}

/** How the learning rate goes after it has risen. */
export const lrSchedules = ["linear", "cosine", "inverse_sqrt", "constant"] as const;
