/**
 * Turns prompts into finished groups. One failed trajectory aborts one trajectory: a reward that throws, hangs or returns
 * nonsense, or a malformed response, becomes a placeholder with the original error; its siblings go on (semantics 3).
 * An abort of the whole call is different: it stops everything with an error, and leaves no placeholders.
 */
import { type Clock, type Logger, mixSeed, silentLogger, withDeadline } from "@muster/base";
import { groupIdOf, type Trajectory, type TrajectoryGroup } from "@muster/protocol";
import type { EngineInfo, Generated, Prompt, Reward, RolloutEngine, SamplingOptions, Task } from "./engine.ts";
import { errors } from "./errors.ts";

/** A prompt and the index of its group within the step. */
export interface GroupPrompt {
  readonly index: number;
  readonly attempt: number;
  readonly prompt: Prompt;
}

/** What {@link collectGroups} works on. */
export interface CollectOptions {
  readonly engine: RolloutEngine;
  readonly reward: Reward;
  readonly task: Task;
  readonly prompts: readonly GroupPrompt[];
  readonly groupSize: number;
  readonly sampling: SamplingOptions;
  /** Seed of the job and step: with the group index they decide every random number. */
  readonly seed: number;
  readonly step: number;
  /** Weight version the groups must come from. */
  readonly version: number;
  /** Deadline of the reward of one trajectory. */
  readonly rewardTimeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly logger?: Logger;
}

/** Rewards that are computed at the same time. */
const rewardsAtOnce = 64;

/** Longest name and message that travel with a placeholder. */
const errorNameMax = 200;
const errorMessageMax = 2000;

/**
 * Generates and judges groups.
 *
 * @returns One group per prompt, in order, each with `groupSize` trajectories in sample order.
 * @throws The signal's reason; MUSTER_ERR_ENGINE_VERSION_MISMATCH; whatever the engine throws for the whole call.
 */
export async function collectGroups(options: CollectOptions): Promise<TrajectoryGroup[]> {
  const { engine, prompts, groupSize, version, signal } = options;
  const held = engine.weightVersion();
  if (held !== version) throw errors.EngineVersionMismatch({ version: held, expected: version });
  const rows = await engine.generate(
    prompts.map((entry) => requestOf(entry, options)),
    signal,
  );
  const jobs = prompts.flatMap((entry, g) =>
    Array.from({ length: groupSize }, (_, sample) => ({ entry, sample, generated: rows[g]?.[sample] })),
  );
  const stop = abortOf(signal);
  const settled = await inBatches(jobs, (job) => settle(job, { ...options, stopped: stop.promise })).finally(
    stop.forget,
  );
  signal.throwIfAborted();
  return prompts.map(({ index, attempt }, g) => ({
    groupId: groupIdOf(options.step, index),
    step: options.step,
    index,
    attempt,
    trajectories: settled.slice(g * groupSize, (g + 1) * groupSize),
  }));
}

function requestOf(entry: GroupPrompt, options: CollectOptions): Parameters<RolloutEngine["generate"]>[0][number] {
  return {
    requestId: `${groupIdOf(options.step, entry.index)}.${entry.attempt}`,
    promptIds: entry.prompt.ids,
    n: options.groupSize,
    sampling: options.sampling,
    seed: mixSeed(options.seed, options.step, entry.index),
  };
}

/** Work on one trajectory. */
interface Job {
  readonly entry: GroupPrompt;
  readonly sample: number;
  readonly generated: Generated | undefined;
}

/** Options of one trajectory; `stopped` rejects when the whole call is aborted. */
type SettleOptions = CollectOptions & { readonly stopped: Promise<never> };

/** The trajectory, or its placeholder. Rejects only when the whole call is aborted. */
async function settle(job: Job, options: SettleOptions): Promise<Trajectory> {
  try {
    const generated = checked(job, options.engine.info());
    const reward = await judge(job, generated, options);
    return trajectoryOf(job.entry.prompt, generated, reward);
  } catch (error) {
    options.signal.throwIfAborted();
    const groupId = groupIdOf(options.step, job.entry.index);
    (options.logger ?? silentLogger).warn({ groupId, sample: job.sample, error }, "trajectory aborted");
    return placeholderOf(error);
  }
}

async function judge({ entry, sample }: Job, generated: Generated, options: SettleOptions): Promise<number> {
  const { reward, task, clock, signal, stopped } = options;
  const { responseIds, finish } = generated;
  const input = { prompt: entry.prompt, responseIds, responseText: task.decode(responseIds), finish };
  // Raced with `stopped`, because a reward need not listen to its signal.
  const value: unknown = await withDeadline(
    (inner) => Promise.race([reward.score(input, AbortSignal.any([inner, signal])), stopped]),
    {
      what: `reward of sample ${sample} of group ${groupIdOf(options.step, entry.index)}`,
      timeoutMs: options.rewardTimeoutMs,
      clock,
    },
  );
  if (typeof value !== "number" || !Number.isFinite(value)) throw errors.RewardInvalid({ value: String(value) });
  return value;
}

/** A promise that rejects with the signal's reason, and the way to stop listening. */
function abortOf(signal: AbortSignal): { readonly promise: Promise<never>; readonly forget: () => void } {
  let stop = (): void => {};
  const promise = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
  promise.catch(() => {}); // every race has its own handler; with no race left there is nobody to tell
  return { promise, forget: () => signal.removeEventListener("abort", stop) };
}

/** The response, if it is one that may be trained on. */
function checked({ entry, generated }: Job, info: EngineInfo): Generated {
  const reject = (reason: string): never => {
    throw errors.TrajectoryInvalid({ reason });
  };
  if (!generated) return reject("it is missing");
  if (generated.finish === "abort") throw errors.TrajectoryAborted();
  const { responseIds, logprobs } = generated;
  const { length } = responseIds;
  if (length < 1 || length + entry.prompt.ids.length > info.maxContext) return reject(`its length is ${length}`);
  if (logprobs.length !== length) return reject(`${logprobs.length} log-probs for ${length} tokens`);
  const wild = responseIds.find((id) => id < 0 || id >= info.vocab);
  if (wild !== undefined) return reject(`token ${wild} is outside the vocabulary of ${info.vocab}`);
  const odd = logprobs.find((value) => !Number.isFinite(value) || value > 1e-3);
  return odd === undefined ? generated : reject(`log-prob ${odd}`);
}

function trajectoryOf(prompt: Prompt, generated: Generated, reward: number): Trajectory {
  const { responseIds, logprobs, finish } = generated;
  const tokens = new Int32Array(prompt.ids.length + responseIds.length);
  tokens.set(prompt.ids);
  tokens.set(responseIds, prompt.ids.length);
  return {
    tokens,
    promptLength: prompt.ids.length,
    logprobs,
    lossMask: new Uint8Array(responseIds.length).fill(1),
    reward,
    status: finish === "length" ? "truncated" : "completed",
    // Of a response that spans an update only the ends are known: the older version is the safe one for staleness.
    segments: [{ version: generated.versionAtStart, from: 0, to: responseIds.length }],
  };
}

/** Stands in for a failed trajectory: consistent lengths, nothing in the loss, never part of group statistics. */
function placeholderOf(error: unknown): Trajectory {
  const { name, message } = error instanceof Error ? error : { name: "NotAnError", message: String(error) };
  return {
    tokens: Int32Array.of(0, 0),
    promptLength: 1,
    logprobs: Float32Array.of(0),
    lossMask: Uint8Array.of(0),
    reward: 0,
    status: "aborted",
    segments: [],
    error: { name: name.slice(0, errorNameMax), message: message.slice(0, errorMessageMax) },
  };
}

/** Maps with at most {@link rewardsAtOnce} in flight; waits for all even when one rejects, then rejects with the first. */
async function inBatches<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(items.length);
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [i, item] of queue) results[i] = await run(item);
  };
  const ends = await Promise.allSettled(Array.from({ length: rewardsAtOnce }, worker));
  const failed = ends.find((end) => end.status === "rejected");
  if (failed) throw failed.reason;
  return results;
}
