/**
 * Turns prompts into finished groups. One failed trajectory aborts one trajectory: a module or reward that throws, hangs, leaves work
 * behind or returns nonsense, or a malformed response, becomes a placeholder with the original error; its siblings go on (semantics 3).
 * An abort of the whole call, and a failure of the engine, are different: they stop everything with an error, without placeholders.
 */

import { type Judged, type Logger, mixSeed, type Prompt, randomOf, silentLogger } from "@muster/base";
import {
  type BegunGroup,
  decideFailure,
  failureDefaults,
  groupIdOf,
  type Trajectory,
  type TrajectoryGroup,
} from "@muster/protocol";
import { begunGroupOf, tokensOf } from "./collect/begun-group.ts";
import { checkResponse, type Response } from "./collect/check-response.ts";
import type { CollectOptions, GroupPrompt } from "./collect/collect-options.ts";
import { failureKindOf } from "./collect/failure-kind.ts";
import { type GenerateFunction, moduleStream, nameOfGenerate, responsesOf } from "./collect/generate-function.ts";
import { inBatches } from "./collect/in-batches.ts";
import { judgedOf } from "./collect/judgement.ts";
import { KeptTurns, nothingDrawn } from "./collect/kept-turns.ts";
import { ownResponse, trajectoryOf } from "./collect/own-response.ts";
import { describedFailure, placeholderWith } from "./collect/placeholder.ts";
import { type Begun, saveGrown } from "./collect/save-grown.ts";
import { SharedEngine } from "./collect/shared-engine.ts";
import { TrajectoryScopes } from "./collect/trajectory-scope.ts";
import type { Generated, GenerateRequest, RolloutEngine } from "./engine.ts";
import { errors } from "./errors.ts";

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
  #isHandingBack = false;
  #failures = 0;
  readonly #forward: () => void;
  readonly #scopes: TrajectoryScopes;
  readonly #shared: SharedEngine;
  /** Of the groups of a module. */
  readonly #turns: ReadonlyMap<GroupPrompt, KeptTurns>;

  constructor(options: CollectOptions) {
    this.#options = options;
    this.#fanOut = options.fanOut ?? 1;
    this.#logger = options.logger ?? silentLogger;
    const { signal, clock, engine } = options;
    this.#forward = () => this.#ending.abort(signal.reason);
    if (signal.aborted) this.#forward();
    signal.addEventListener("abort", this.#forward, { once: true });
    this.#scopes = new TrajectoryScopes({ clock, logger: this.#logger, signal: this.#ending.signal });
    this.#shared = new SharedEngine(engine, this.#ending.signal, this.#logger);
    this.#turns = new Map(options.prompts.map((entry) => [entry, new KeptTurns(this.#resumedOf(entry))]));
  }

  close(): void {
    this.#options.signal.removeEventListener("abort", this.#forward);
    this.#scopes.close();
    const unlogged = this.#failures - loggedMax;
    if (unlogged > 0) this.#logger.warn({ failures: this.#failures, unlogged }, "more trajectories failed");
  }

  /** Trajectories of all samples in order, without those of groups that are handed back. */
  async collect(): Promise<readonly Trajectory[]> {
    const { generate } = this.#options;
    const stop = this.#listenForHandBack();
    return generate ? await this.#collectByModule(generate).finally(stop) : await this.#collectDrawn(stop);
  }

  async #collectDrawn(stop: () => void): Promise<readonly Trajectory[]> {
    const { prompts, groupSize } = this.#options;
    const rows = await this.#drawAndSave().finally(stop);
    this.#handBack(rows);
    const drawn = rows.filter((_, g) => !this.#begun.has(prompts[g]));
    const settled = await inBatches(this.#samplesOf(this.finished(prompts)), (sample, i) => {
      const generated = drawn[Math.floor(i / groupSize)]?.[sample.at];
      const resumed = this.#resumedOf(sample.entry)?.[sample.at];
      return this.#settle(sample, async () => [ownResponse(generated, resumed)]);
    });
    this.#ending.signal.throwIfAborted();
    return settled.flat();
  }

  /** A module's samples are begun anew elsewhere, with the answers that their turns had. */
  async #collectByModule(generate: GenerateFunction): Promise<readonly Trajectory[]> {
    const { prompts, groupSize, signal } = this.#options;
    const samples = this.#samplesOf(prompts);
    const settled: (readonly Trajectory[] | undefined)[] = samples.map(() => undefined);
    const stopSaving = this.#saveGrown(() => {
      this.#shared.keepDrawn();
      const groups = prompts.map((entry) => ({ entry, begun: this.#turnsOf(entry) }));
      return groups.map(({ entry, begun }) => ({ entry, tokens: tokensOf(begun.responses), group: () => begun }));
    });
    const work = inBatches(samples, async (sample, i) => {
      const byModule = () => this.#inPlace(generate, () => this.#byModule(sample, generate));
      settled[i] = await this.#settle(sample, () => byModule().finally(this.#options.settled));
    });
    await work
      .catch((error: unknown) => {
        if (!this.#isHandingBack) throw error;
      })
      .finally(stopSaving);
    signal.throwIfAborted();
    const unfinished = prompts.filter((_, g) => settled.slice(g * groupSize, (g + 1) * groupSize).includes(undefined));
    for (const entry of unfinished) this.#begun.add(entry);
    if (unfinished.length > 0) this.#options.handBack?.take(unfinished.map((entry) => this.#turnsOf(entry)));
    return settled.filter((_, i) => !this.#begun.has(samples[i]?.entry)).flatMap((trajectories) => trajectories ?? []);
  }

  #samplesOf(entries: readonly GroupPrompt[]): readonly Sample[] {
    const { groupSize, step } = this.#options;
    return entries.flatMap((entry) =>
      Array.from({ length: groupSize }, (_, at) => ({ entry, groupId: groupIdOf(step, entry.index), at })),
    );
  }

  /** Prompts whose groups are not handed back. */
  finished(prompts: readonly GroupPrompt[]): readonly GroupPrompt[] {
    return prompts.filter((entry) => !this.#begun.has(entry));
  }

  /** Stops the drawing once the call is asked to hand back. @returns Stops listening. */
  #listenForHandBack(): () => void {
    const { handBack, engine, prompts, generate } = this.#options;
    if (!handBack) return () => {};
    const stop = (): void => {
      if (generate) this.#interrupt(handBack.signal.reason);
      else void engine.abort(prompts.map((entry) => this.#requestId(entry)));
    };
    if (handBack.signal.aborted) queueMicrotask(stop);
    handBack.signal.addEventListener("abort", stop, { once: true });
    return () => handBack.signal.removeEventListener("abort", stop);
  }

  /** Ends the samples of a module where they are. */
  #interrupt(reason: unknown): void {
    if (this.#ending.signal.aborted) return;
    this.#isHandingBack = true;
    this.#shared.keepDrawn();
    this.#ending.abort(reason);
  }

  /** The turns of a module's group, as the next holder takes them over. */
  #turnsOf(entry: GroupPrompt): BegunGroup {
    const turns = this.#turns.get(entry)?.all ?? [];
    return { step: this.#options.step, index: entry.index, responses: turns.length > 0 ? turns : [nothingDrawn()] };
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

  /** Draws, and meanwhile gives away what is begun. */
  async #drawAndSave(): ReturnType<RolloutEngine["generate"]> {
    const { engine, prompts } = this.#options;
    const rows = this.#draw();
    if (!engine.drawn || !engine.info().resumes) return await rows;
    const stopSaving = this.#saveGrown(() =>
      prompts.map((entry) => {
        const row = engine.drawn?.(this.#requestId(entry)) ?? [];
        return { entry, tokens: tokensOf(row), group: () => this.#begunGroupOf(entry, row) };
      }),
    );
    return await rows.finally(stopSaving);
  }

  /** Gives away now and then what has grown since it was begun, for whoever asks for that. @returns Stops it. */
  #saveGrown(look: () => readonly Begun<GroupPrompt>[]): () => void {
    const { prompts, save, clock } = this.#options;
    if (!save) return () => {};
    const atFirst = new Map(prompts.map((entry) => [entry, tokensOf(this.#resumedOf(entry) ?? [])]));
    return saveGrown(save, clock, atFirst, look);
  }

  /** What may be gone on with: begun by weights that are not newer than these, by a module or for an engine that can. */
  #resumedOf({ begun }: GroupPrompt): BegunGroup["responses"] | undefined {
    const { engine, groupSize, version, generate } = this.#options;
    if (!begun) return undefined;
    const { responses } = begun;
    const isFit = generate
      ? responses.every(({ turn }) => turn)
      : engine.info().resumes && responses.length === groupSize && !responses.some(({ turn }) => turn);
    const isOlder = responses.every(({ segments }) => segments.every((segment) => segment.version <= version));
    return isFit && isOlder ? responses : undefined;
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
    const from = this.#options.generate ? nameOfGenerate(this.#options.generate.file) : "the engine";
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
        if (action !== "retry") {
          const failure = describedFailure(error, kind);
          return { placeholder: () => placeholderWith(failure) };
        }
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
    const timeoutMs = generate.isBounded ? null : generateTimeoutMs;
    const randomKey = [seed, at];
    return await this.#scopes.run({ what, timeoutMs }, async (signal) => {
      const requestId = `${this.#requestId(entry)}.${at}`;
      const turns = this.#turns.get(entry) ?? new KeptTurns();
      const { handle, oldest } = this.#shared.handleOf({ requestId, seed, sample: at, sampling, turns, signal });
      const answer: unknown = await generate({
        prompt: { ...prompt, ids: prompt.ids.slice() },
        groupId,
        sample: at,
        fanOut: this.#fanOut,
        sampling,
        task,
        engine: handle,
        random: randomOf(...randomKey, moduleStream),
        randomKey,
        signal,
      });
      return responsesOf(answer, { from: nameOfGenerate(generate.file), fanOut: this.#fanOut }, oldest() ?? version);
    });
  }

  async #judge({ entry, groupId, at }: Sample, response: Response): Promise<Judged> {
    if (response.judged) return response.judged;
    const { reward, task, rewardTimeoutMs } = this.#options;
    const { responseIds, finish, messages } = response;
    const own = responseIds.slice();
    const said = { responseIds: own, responseText: task.decode(own), finish };
    const input = { prompt: askable(entry.prompt), ...said, ...(messages ? { messages } : {}) };
    const what = `reward of sample ${at} of group ${groupId}`;
    const value: unknown = reward.isBounded
      ? await reward.score(input, this.#ending.signal)
      : await this.#scopes.run({ what, timeoutMs: rewardTimeoutMs }, (signal) => reward.score(input, signal));
    return judgedOf(value, reward.name);
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

/** @throws why there is nothing to ask. */
function askable(prompt: GroupPrompt["prompt"]): Prompt {
  if ("fault" in prompt) throw prompt.fault;
  return prompt;
}
