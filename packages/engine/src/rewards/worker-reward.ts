/** A reward that a worker computes, in batches: `task.reward = "worker"`. */
import type { ModelNeeds } from "@muster/data";
import type { ScorerConfig } from "@muster/protocol";
import type { Reward, RewardInput } from "../engine.ts";
import type { WorkerSelf } from "../worker/description.ts";
import { joined } from "../worker/joined.ts";
import { scoredSchema } from "../worker/messages.ts";
import type { OpenWorker } from "../worker/open-link.ts";
import { scorerOptionsOf } from "../worker/options.ts";
import { Scorer } from "../worker/scorer.ts";
import { questionOf, rewardIn } from "./reward-wire.ts";

/** A response as it goes into the region: what a program is asked, as JSON, and its tokens. */
interface Asked {
  readonly question: Uint8Array;
  readonly promptIds: Int32Array;
  readonly responseIds: Int32Array;
}

/** Of the three arrays of numbers, for one response. */
const columnBytes = 3 * 4;
/** What aligning five arrays may cost. */
const paddingBytes = 5 * 8;

/**
 * Starts the reward worker of a job.
 *
 * @param env - Environment that it inherits, but for what is meant for Muster itself.
 * @throws MUSTER_ERR_WORKER_COMMAND, and as a worker that does not begin
 */
export async function openWorkerReward(
  config: ScorerConfig,
  needs: ModelNeeds,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Reward> {
  const worker = scorerOptionsOf(config, env);
  const name = config.command;
  const scorer = await Scorer.open<Asked, unknown>({
    ...{ role: "reward", worker, needs, batch: config.batch },
    bytesOf: ({ question, promptIds, responseIds }) =>
      paddingBytes + columnBytes + question.byteLength + promptIds.byteLength + responseIds.byteLength,
    ask: scoresOf,
  });
  return {
    name,
    isBounded: true,
    score: async (input, signal) => rewardIn(await scorer.score(askedOf(input), signal), name),
    onStarting: (run) => void scorer.onStarting(run),
    close: () => scorer.close(),
  };
}

/** A response as it is put to the worker. Pure. */
export function askedOf(input: RewardInput): Asked {
  const question = new TextEncoder().encode(JSON.stringify(questionOf(input)));
  return { question, promptIds: input.prompt.ids, responseIds: input.responseIds };
}

/** Asks for scores. @returns What the worker says of each, in order. @throws MUSTER_ERR_WORKER_PROTOCOL when it says another number of them */
export async function scoresOf(
  { link, regions }: OpenWorker<WorkerSelf>,
  items: readonly Asked[],
  signal: AbortSignal,
): Promise<readonly unknown[]> {
  const arrays = await regions.writeArrays("inputs", columnsOf(items));
  const { scores } = await link.ask("score", { trajectories: items.length, arrays }, scoredSchema, { signal });
  if (scores.length === items.length) return scores;
  throw link.condemn(`it gave ${scores.length} scores for ${items.length} trajectories`);
}

/** What is judged, one behind the other, as columns. Pure. */
function columnsOf(items: readonly Asked[]) {
  return {
    lengths: Int32Array.from(items, ({ promptIds, responseIds }) => promptIds.length + responseIds.length),
    promptLengths: Int32Array.from(items, ({ promptIds }) => promptIds.length),
    questionBytes: Int32Array.from(items, ({ question }) => question.length),
    tokens: joined(
      items.flatMap(({ promptIds, responseIds }) => [promptIds, responseIds]),
      Int32Array,
    ),
    questions: joined(
      items.map(({ question }) => question),
      Uint8Array,
    ),
  };
}
