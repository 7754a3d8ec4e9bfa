/**
 * Turns prompts into finished groups. One failed trajectory aborts one trajectory: a module or reward that throws, hangs, leaves work
 * behind or returns nonsense, or a malformed response, becomes a placeholder with the original error; its siblings go on (semantics 3).
 * An abort of the whole call, and a failure of the engine, are different: they stop everything with an error, without placeholders.
 */

import { type Clock, every, type Logger, mixSeed, type Prompt, randomOf, shownValue, silentLogger } from "@muster/base";
import type { Task } from "@muster/data";
import {
  type BegunGroup,
  decideFailure,
  type FailurePolicy,
  failureDefaults,
  groupIdOf,
  rewardMax,
  type Trajectory,
  type TrajectoryGroup,
} from "@muster/protocol";
import { begunGroupOf, tokensOf } from "./collect/begun-group.ts";
import { checkResponse, type Response } from "./collect/check-response.ts";
import { failureKindOf } from "./collect/failure-kind.ts";
import { type GenerateFunction, responsesOf } from "./collect/generate-function.ts";
import { inBatches } from "./collect/in-batches.ts";
import { ownResponse, trajectoryOf } from "./collect/own-response.ts";
import { placeholderOf } from "./collect/placeholder.ts";
import { SharedEngine } from "./collect/shared-engine.ts";
import { TrajectoryScopes } from "./collect/trajectory-scope.ts";
import type { Generated, GenerateRequest, Reward, RolloutEngine, SamplingOptions } from "./engine.ts";
import { errors } from "./errors.ts";

/** A prompt and the index of its group within the step. */
export interface GroupPrompt {
  readonly index: number;
  readonly attempt: number;
  /** What is asked; why there is nothing to ask where the row of the data makes no prompt. */
  readonly prompt: Prompt | { readonly fault: unknown };
  /** What an earlier holder drew of it; used by engines that resume. */
  readonly begun?: BegunGroup;
}

/** What {@link collectGroups} works on. */
export interface CollectOptions {
  readonly engine: RolloutEngine;
  readonly reward: Reward;
  /** Generates a sample; `null` or absent for the engine's own way. */
  readonly generate?: GenerateFunction | null;
  /** Responses of one sample, declared. Default 1. */
  readonly fanOut?: number;
  readonly task: Task;
  readonly prompts: readonly GroupPrompt[];
  /** Samples of a prompt. */
  readonly groupSize: number;
  readonly sampling: SamplingOptions;
  /** Seed of the job and step: with the group index they decide every random number. */
  readonly seed: number;
  readonly step: number;
  /** Weight version the groups must come from. */
  readonly version: number;
  /** Deadline of the reward of one trajectory. */
  readonly rewardTimeoutMs: number;
  /** Deadline of one call of `generate`. Needed with it. */
  readonly generateTimeoutMs?: number;
  /** Which failures of a trajectory are tried again. Default {@link failureDefaults}. */
  readonly failure?: FailurePolicy;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Once aborted, drawing stops: what is whole is finished, the rest is handed back. */
  readonly handBack?: HandBack;
  /** Takes what is drawn of unfinished groups now and then, so that little is lost with this process. */
  readonly save?: Save;
  /** Hears of each sample of a generate function that is done, whatever became of it, and of each that is judged: a call may take long while it goes on. */
  readonly settled?: () => void;
  readonly logger?: Logger;
}

/** How a call is asked to hand back what it has not finished. */
export interface HandBack {
  readonly signal: AbortSignal;
  /** Takes the groups with unfinished responses; they are not among those that the call returns. */
  readonly take: (begun: readonly BegunGroup[]) => void;
}

/** How a call gives away what it has begun while it goes on. */
export interface Save {
  /** Time between two looks. */
  readonly everyMs: number;
  /** Gets the groups that have more tokens than when it took them last. @returns False when it can not take them now. */
  readonly take: (begun: readonly BegunGroup[]) => boolean;
}

/** Failures of one call that are logged one by one; the rest is counted. */
const loggedMax = 16;

/**
 * Generates and judges groups.
 *
 * @returns One group per prompt, in order, each with `groupSize` × `fanOut` trajectories in sample order; without those handed back.
 * @throws The signal's reason; MUSTER_ERR_ENGINE_VERSION_MISMATCH; whatever the engine throws for the whole call.
 */
export async function collectGroups(options: CollectOptions): Promise<TrajectoryGroup[]> {
  const { engine, prompts, groupSize, version, fanOut = 1 } = options;
  const held = engine.weightVersion();
  if (held !== version) throw errors.EngineVersionMismatch({ version: held, expected: version });
  const call = new Call(options);
  try {
    const samples = await call.collect();
    const size = groupSize * fanOut;
    return call.finished(prompts).map(({ index, attempt }, g) => ({
      groupId: groupIdOf(options.step, index),
      step: options.step,
      index,
      attempt,
      trajectories: samples.slice(g * size, (g + 1) * size),
    }));
  } finally {
    call.close();
  }
}

/** One sample of one group. */
interface Sample {
  readonly entry: GroupPrompt;
  readonly groupId: string;
  readonly at: number;
}

class Call {
  readonly #options: CollectOptions;
  readonly #fanOut: number;
  /** Entries whose groups are handed back. */
  readonly #begun = new Set<GroupPrompt | undefined>();
  readonly #logger: Logger;
  /** Ends everything: with the caller's signal, or with a failure of the engine. */
  readonly #ending = new AbortController();
  #failures = 0;
  readonly #forward: () => void;
  readonly #scopes: TrajectoryScopes;
  readonly #shared: SharedEngine;

  constructor(options: CollectOptions) {
    this.#options = options;
    this.#fanOut = options.fanOut ?? 1;
    this.#logger = options.logger ?? silentLogger;
    const { signal, clock, engine } = options;
    this.#forward = () => this.#ending.abort(signal.reason);
    if (signal.aborted) this.#forward();
    signal.addEventListener("abort", this.#forward, { once: true });
    this.#scopes = new TrajectoryScopes({ clock, logger: this.#logger, signal: this.#ending.signal });
    this.#shared = new SharedEngine(engine, this.#ending.signal);
  }

  close(): void {
    this.#options.signal.removeEventListener("abort", this.#forward);
    this.#scopes.close();
    const unlogged = this.#failures - loggedMax;
    if (unlogged > 0) this.#logger.warn({ failures: this.#failures, unlogged }, "more trajectories failed");
  }

  /** Trajectories of all samples in order. */
  async collect(): Promise<readonly Trajectory[]> {
    const { prompts, groupSize, step, generate } = this.#options;
    const stop = this.#listenForHandBack();
    const rows = generate ? null : await this.#drawAndSave().finally(stop);
    if (rows) this.#handBack(rows);
    const drawn = rows?.filter((_, g) => !this.#begun.has(prompts[g]));
    const samples: readonly Sample[] = this.finished(prompts).flatMap((entry) =>
      Array.from({ length: groupSize }, (_, at) => ({ entry, groupId: groupIdOf(step, entry.index), at })),
    );
    const settled = await inBatches(samples, (sample, i) => {
      const generated = drawn?.[Math.floor(i / groupSize)]?.[sample.at];
      return this.#settle(sample, () =>
        generate
          ? this.#inPlace(generate, () => this.#byModule(sample, generate)).finally(this.#options.settled)
          : Promise.resolve([ownResponse(generated, this.#resumedOf(sample.entry)?.[sample.at])]),
      );
    }).finally(stop);
    this.#ending.signal.throwIfAborted();
    return settled.flat();
  }

  /** Prompts whose groups are not handed back. */
  finished(prompts: readonly GroupPrompt[]): readonly GroupPrompt[] {
    return prompts.filter((entry) => !this.#begun.has(entry));
  }

  /** Stops the drawing once the call is asked to hand back. A module's samples are begun anew elsewhere. @returns Stops listening. */
  #listenForHandBack(): () => void {
    const { handBack, engine, prompts, generate } = this.#options;
    if (!handBack) return () => {};
    const stop = (): void => {
      if (generate) this.#ending.abort(handBack.signal.reason);
      else void engine.abort(prompts.map((entry) => this.#requestId(entry)));
    };
    if (handBack.signal.aborted) queueMicrotask(stop);
    handBack.signal.addEventListener("abort", stop, { once: true });
    return () => handBack.signal.removeEventListener("abort", stop);
  }

  /** Gives away the groups with responses that were interrupted. */
  #handBack(rows: readonly (readonly Generated[])[]): void {
    const { handBack, prompts } = this.#options;
    if (!handBack?.signal.aborted) return;
    const begun = prompts.flatMap((entry, g): BegunGroup[] => {
      const row = rows[g] ?? [];
      if (!row.some(({ finish }) => finish === "abort")) return [];
      this.#begun.add(entry);
      return [this.#begunGroupOf(entry, row)];
    });
    handBack.take(begun);
  }

  #begunGroupOf(entry: GroupPrompt, row: readonly Generated[]): BegunGroup {
    return begunGroupOf({ step: this.#options.step, index: entry.index }, row, this.#resumedOf(entry));
  }

  /** Draws, and meanwhile gives away what is begun. A module's samples have no place to go on from. */
  async #drawAndSave(): ReturnType<RolloutEngine["generate"]> {
    const { engine, prompts, save, clock } = this.#options;
    const rows = this.#draw();
    if (!save || !engine.drawn || !engine.info().resumes) return await rows;
    const taken = new Map(prompts.map((entry) => [entry, tokensOf(this.#resumedOf(entry) ?? [])]));
    const look = (): void => {
      const looked = prompts.map((entry) => ({ entry, row: engine.drawn?.(this.#requestId(entry)) ?? [] }));
      const grown = looked.filter(({ entry, row }) => tokensOf(row) > (taken.get(entry) ?? 0));
      if (grown.length === 0 || !save.take(grown.map(({ entry, row }) => this.#begunGroupOf(entry, row)))) return;
      for (const { entry, row } of grown) taken.set(entry, tokensOf(row));
    };
    return await rows.finally(every(clock, save.everyMs, look));
  }

  /** What may be gone on with: begun by weights that are not newer than these, for an engine that can. */
  #resumedOf({ begun }: GroupPrompt): BegunGroup["responses"] | undefined {
    const { engine, groupSize, version, generate } = this.#options;
    if (!begun || generate || !engine.info().resumes || begun.responses.length !== groupSize) return undefined;
    const isOlder = begun.responses.every(({ segments }) => segments.every((segment) => segment.version <= version));
    return isOlder ? begun.responses : undefined;
  }

  /** Responses that the engine draws by itself, all in one call; none for what can not be asked. */
  async #draw(): ReturnType<RolloutEngine["generate"]> {
    const { engine, prompts, groupSize, sampling } = this.#options;
    const requests = prompts.flatMap((entry): GenerateRequest[] => {
      if ("fault" in entry.prompt) return [];
      const begun = this.#resumedOf(entry);
      return [
        {
          requestId: this.#requestId(entry),
          promptIds: entry.prompt.ids,
          n: groupSize,
          sampling,
          seed: this.#seedOf(entry),
          ...(begun ? { begun } : {}),
        },
      ];
    });
    const rows = [...(await engine.generate(requests, this.#ending.signal))];
    return prompts.map(({ prompt }) => ("fault" in prompt ? [] : (rows.shift() ?? [])));
  }

  /** The sample's trajectories, or as many placeholders: a group never changes its shape. */
  async #settle(sample: Sample, respond: () => Promise<readonly Response[]>): Promise<readonly Trajectory[]> {
    const info = this.#options.engine.info();
    const { prompt } = sample.entry;
    const from = this.#options.generate ? nameOf(this.#options.generate) : "the engine";
    const checked = await this.#attempt(sample, async () => {
      const { ids } = askable(prompt);
      return (await respond()).map((response) =>
        checkResponse(response, { from, promptLength: (response.promptIds ?? ids).length }, info),
      );
    });
    if ("placeholder" in checked) return Array.from({ length: this.#fanOut }, checked.placeholder);
    const judged = checked.value.map(async (response) => {
      const reward = await this.#attempt(sample, () => this.#judge(sample, response));
      if ("placeholder" in reward) return reward.placeholder();
      return trajectoryOf(response.promptIds ?? askable(prompt).ids, response, reward.value);
    });
    const { reward, settled } = this.#options;
    return await Promise.all(judged).finally(reward.isBounded ? settled : undefined);
  }

  /** Runs a piece of a sample's work as often as its failures' rules say. Rejects only when everything ends. */
  async #attempt<T>(
    { groupId, at }: Sample,
    run: () => Promise<T>,
  ): Promise<{ readonly value: T } | { readonly placeholder: () => Trajectory }> {
    for (let failures = 1; ; failures++) {
      try {
        return { value: await run() };
      } catch (error) {
        if (this.#shared.isFault(error)) this.#ending.abort(error);
        this.#ending.signal.throwIfAborted();
        const kind = failureKindOf(error);
        const { action, afterMs, reason } = decideFailure(this.#options.failure ?? failureDefaults, kind, failures);
        this.#failures += 1;
        const fields = { groupId, sample: at, error, action, reason };
        if (this.#failures <= loggedMax) this.#logger.warn(fields, "trajectory failed");
        if (action !== "retry") return { placeholder: () => placeholderOf(error, kind) };
        await this.#pause(afterMs);
      }
    }
  }

  /** Waits for a place, where there are only so many. */
  async #inPlace<T>({ places }: GenerateFunction, run: () => Promise<T>): Promise<T> {
    return places ? await places.use(run, this.#ending.signal) : await run();
  }

  async #byModule({ entry, groupId, at }: Sample, generate: GenerateFunction): Promise<readonly Response[]> {
    const { task, sampling, version, generateTimeoutMs = 0 } = this.#options;
    const what = `sample ${at} of group ${groupId}`;
    const seed = this.#seedOf(entry);
    const prompt = askable(entry.prompt);
    return await this.#scopes.run({ what, timeoutMs: generateTimeoutMs }, async (signal) => {
      const requestId = `${this.#requestId(entry)}.${at}`;
      const { handle, oldest } = this.#shared.handleOf({ requestId, seed, sample: at, sampling, signal });
      const answer: unknown = await generate({
        prompt: { ...prompt, ids: prompt.ids.slice() },
        groupId,
        sample: at,
        fanOut: this.#fanOut,
        sampling,
        task,
        engine: handle,
        random: randomOf(seed, at, moduleStream),
        signal,
      });
      return responsesOf(answer, { from: nameOf(generate), fanOut: this.#fanOut }, oldest() ?? version);
    });
  }

  async #judge({ entry, groupId, at }: Sample, response: Response): Promise<number> {
    if (response.reward !== undefined) return response.reward;
    const { reward, task, rewardTimeoutMs } = this.#options;
    const { responseIds, finish, messages } = response;
    const own = responseIds.slice();
    const said = { responseIds: own, responseText: task.decode(own), finish };
    const input = { prompt: askable(entry.prompt), ...said, ...(messages ? { messages } : {}) };
    const what = `reward of sample ${at} of group ${groupId}`;
    const value: unknown = reward.isBounded
      ? await reward.score(input, this.#ending.signal)
      : await this.#scopes.run({ what, timeoutMs: rewardTimeoutMs }, (signal) => reward.score(input, signal));
    if (typeof value !== "number" || !(Math.abs(value) <= rewardMax))
      throw errors.RewardInvalid({ name: reward.name, value: shownValue(value), limit: rewardMax });
    return value;
  }

  #pause(afterMs: number): Promise<void> {
    if (afterMs === 0) return Promise.resolve();
    const { signal } = this.#ending;
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        cancel();
        reject(signal.reason);
      };
      const cancel = this.#options.clock.after(afterMs, () => {
        signal.removeEventListener("abort", stop);
        resolve();
      });
      signal.addEventListener("abort", stop, { once: true });
    });
  }

  #requestId({ index, attempt }: GroupPrompt): string {
    return `${groupIdOf(this.#options.step, index)}.${attempt}`;
  }

  #seedOf({ index }: GroupPrompt): number {
    return mixSeed(this.#options.seed, this.#options.step, index);
  }
}

/** A generate function as errors name it: by the user's own file. */
const nameOf = ({ file }: GenerateFunction): string =>
  file ? `the generate function of ${file}` : "the generate function";

/** Keeps the random numbers of modules apart from those of the engine. */
const moduleStream = 0x6d6f64;

/** @throws why there is nothing to ask. */
function askable(prompt: GroupPrompt["prompt"]): Prompt {
  if ("fault" in prompt) throw prompt.fault;
  return prompt;
}
