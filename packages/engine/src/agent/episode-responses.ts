/** The responses of an agent's episode. Pure. */
import type { ModuleResponse, RewardAnswer } from "@muster/base";
import { errors } from "../errors.ts";
import type { EpisodeOutcome, EpisodeSample } from "./episode-port.ts";

/** How an episode becomes responses. */
export interface EpisodeRule {
  /** Who judges: the agent, over its session, or the reward of the job. */
  readonly reward: "session" | "task";
  /** Trajectories that a sample has. */
  readonly fanOut: number;
}

/**
 * An episode as `rollout.fan_out` responses. One with fewer trajectories is filled up with copies whose tokens are in no loss: they have the
 * reward of the episode, so every sample weighs the same in its group's baseline.
 *
 * @throws MUSTER_ERR_AGENT_EPISODE for one without turns, without a reward, or with more trajectories
 */
export function responsesOfEpisode(
  { turns, reward, finish, samples, messages }: EpisodeOutcome,
  { reward: judge, fanOut }: EpisodeRule,
): ModuleResponse | readonly ModuleResponse[] {
  if (turns === 0)
    throw errors.AgentEpisode({ reason: "it asked the model nothing; it must use OPENAI_BASE_URL as its base URL" });
  if (judge === "session" && reward === null)
    throw errors.AgentEpisode({
      reason: 'it posted no reward to MUSTER_SESSION_URL/reward; let it, or set rollout.agent.reward = "task"',
    });
  if (samples.length > fanOut)
    throw errors.AgentEpisode({
      reason: `its conversation makes ${samples.length} trajectories, because it branches or rewrites what was said; rollout.fan_out allows ${fanOut}`,
    });
  const responses = samples.map((sample) => ({
    ...responseOf(sample),
    ...{ finish, messages },
    ...(judge === "session" ? { reward: reward as RewardAnswer } : {}),
  }));
  const [first] = responses;
  while (first && responses.length < fanOut) responses.push({ ...first, lossMask: first.lossMask.map(() => 0) });
  return fanOut === 1 ? (first as ModuleResponse) : responses;
}

function responseOf({ tokens, promptLength, lossMask, logprobs, versions }: EpisodeSample) {
  return {
    promptIds: tokens.slice(0, promptLength),
    responseIds: tokens.slice(promptLength),
    ...{ lossMask, logprobs, versions: filledVersions(versions) },
  };
}

/** What came between two turns was read by the weights that drew the turn behind it. */
function filledVersions(versions: readonly (string | null)[]): readonly number[] {
  const filled: number[] = [];
  let next = 0;
  for (let at = versions.length - 1; at >= 0; at--) {
    const version = versions[at] ?? null;
    if (version !== null) next = Number(version);
    filled[at] = next;
  }
  return filled;
}
