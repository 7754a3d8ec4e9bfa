/** What the reference policy says of a batch, where rewards need it before advantages can be known. */
import { type Training, type TrajectoryGroup, trainingDefaults } from "@muster/protocol";
import type { PolicyEngine, TrainSample } from "../engine.ts";
import { errors } from "../errors.ts";
import type { ReferenceLogprobs } from "./returns.ts";

/**
 * Log-probabilities of every valid response under the reference policy; nothing where no reward needs them. Every trainer computes the whole batch:
 * advantages compare responses with each other, so each plan needs all of them.
 *
 * @throws MUSTER_ERR_ENGINE_NOT_READY for an engine without a reference policy
 */
export async function referenceLogprobsOf(
  engine: PolicyEngine,
  groups: readonly TrajectoryGroup[],
  options: {
    readonly training?: Training | undefined;
    readonly temperature: number;
    readonly signal: AbortSignal;
    readonly onPart?: () => void;
  },
): Promise<ReferenceLogprobs | undefined> {
  const { training = trainingDefaults } = options;
  if (training.klCoefficient === 0 || training.klIn !== "reward") return undefined;
  if (!engine.referenceLogprobs)
    throw errors.EngineNotReady({ operation: "referenceLogprobs", missing: "a reference policy" });
  const valid = groups.flatMap(({ trajectories }) =>
    trajectories.filter(({ status, logprobs }) => status !== "aborted" && logprobs.length > 0),
  );
  const samples = valid.map(
    ({ tokens, promptLength, logprobs }): TrainSample => ({ tokens, promptLength, logprobs, advantage: 0 }),
  );
  const found = await engine.referenceLogprobs(samples, options);
  return new Map(valid.map((trajectory, i) => [trajectory, found[i]!] as const));
}
