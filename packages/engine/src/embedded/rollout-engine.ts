/** The embedded sampler behind the rollout interface: one call at a time, pauses, aborts, weight versions. */
import { checkRequest } from "../check-request.ts";
import type { EngineInfo, Generated, GenerateRequest, RankTensor, RolloutEngine, WeightUpdate } from "../engine.ts";
import { errors } from "../errors.ts";
import { Gate } from "../gate.ts";
import { loadWeightsFor } from "../hf-folder.ts";
import { inlineWeights } from "../inline-weights.ts";
import { embeddedInfo } from "./core.ts";
import { type Decoder, openCoreDecoder, type WeightsIn } from "./decoder.ts";
import { checkModel, type ModelConfig, parametersOf } from "./model-config.ts";
import { openRankDecoder } from "./ranks/rank-decoder.ts";
import { rankTensorsOf } from "./ranks/rank-section.ts";
import { type SamplerHost, type Sampling, startSampler } from "./sampler.ts";

/** What an embedded rollout engine is made of. */
export interface EmbeddedRolloutOptions {
  readonly model: ModelConfig;
  /** Longest sequence, at most `model.maxContext`, which is the default. */
  readonly maxContext?: number;
  /** Responses drawn at the same time (default 256, fewer for large models). Does not change the responses. */
  readonly rows?: number;
  /**
   * Ranks that share the model by tensor parallelism (default 1): each is a thread with memory of its own, which has its rows of every weight and
   * its heads' part of the cache. Must divide `model.kvHeads`, and four times as many `model.ffn`. Does not change the responses.
   */
  readonly ranks?: number;
  /** What it says of its bits in its info. */
  readonly fingerprint?: string;
}

/** Calls of `generate` that may wait for their turn. */
const callsMax = 64;

/**
 * Makes a sampler that runs inside this process.
 *
 * @throws MUSTER_ERR_ENGINE_MODEL_INVALID, MUSTER_ERR_ENGINE_OUT_OF_MEMORY; of several ranks what fails after their start is told by `generate` and
 *   `updateWeights`, MUSTER_ERR_ENGINE_RANK_LOST.
 */
export function createEmbeddedRolloutEngine(options: EmbeddedRolloutOptions): RolloutEngine {
  return new EmbeddedRolloutEngine(options);
}

/** One call of `generate` in flight. */
interface Call {
  readonly ids: ReadonlySet<string>;
  readonly aborted: Set<string>;
  /** `null` until its turn has come. */
  sampling: Sampling | null;
}

class EmbeddedRolloutEngine implements RolloutEngine {
  readonly #model: ModelConfig;
  readonly #decoder: Decoder;
  readonly #info: EngineInfo;
  readonly #slots: number;
  readonly #calls = new Set<Call>();
  #version: number | null = null;
  /** End of the line of calls and updates: they run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  /** Where new calls wait, and where running ones stand still. */
  readonly #admission = new Gate();
  readonly #thawing = new Gate();
  #paused: "abort" | "drain" | "keep" | null = null;
  /** End of the line of weights that are being copied; frozen calls stay so until then. */
  #swapped: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(options: EmbeddedRolloutOptions) {
    const model = { ...options.model, maxContext: options.maxContext ?? options.model.maxContext };
    checkModel(model);
    this.#model = model;
    this.#slots = options.rows ?? Math.max(1, Math.min(256, Math.floor(2e8 / parametersOf(model))));
    const { ranks = 1 } = options;
    this.#decoder = ranks === 1 ? openCoreDecoder(model, this.#slots) : openRankDecoder(model, this.#slots, ranks);
    const { fingerprint } = options;
    this.#info = { ...embeddedInfo(model, ranks), ...(fingerprint === undefined ? {} : { fingerprint }) };
  }

  info(): EngineInfo {
    return this.#info;
  }

  rankTensors(): readonly RankTensor[] {
    return rankTensorsOf(this.#model);
  }

  async health(options: Parameters<RolloutEngine["health"]>[0]): ReturnType<RolloutEngine["health"]> {
    if (this.#closed) return { ok: false, state: "stopping" };
    const failure = this.#decoder.failure();
    if (failure) return { ok: false, state: "unhealthy", detail: failure.message };
    if (this.#version === null) return { ok: false, state: "starting", detail: "no weights yet" };
    if (!options.deep || this.#paused) return { ok: true, state: "up" };
    const sampling = { temperature: 0, maxNewTokens: 1, stopTokenIds: [] };
    const probe = { requestId: "health", promptIds: Int32Array.of(0), n: 1, sampling, seed: 0 };
    try {
      const [row] = await this.generate([probe], options.signal);
      const finite = Number.isFinite(row?.[0]?.logprobs[0]);
      return finite ? { ok: true, state: "up" } : { ok: false, state: "unhealthy", detail: "log-probs are not finite" };
    } catch (error) {
      return { ok: false, state: "unhealthy", detail: String(error) };
    }
  }

  async generate(
    requests: readonly GenerateRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly Generated[])[]> {
    this.#mustBeOpen("generate");
    if (this.#calls.size >= callsMax) throw errors.EngineBusy({ operation: "generate", running: `${callsMax} calls` });
    this.#mustHaveWeights();
    for (const request of requests) checkEmbeddedRequest(this.#info, request);
    const call: Call = {
      ids: new Set(requests.map((request) => request.requestId)),
      aborted: new Set(),
      sampling: null,
    };
    this.#calls.add(call);
    try {
      await this.#admission.passed(signal);
      return await this.#inTurn(() => {
        signal.throwIfAborted();
        call.sampling = startSampler(this.#decoder, requests, { host: this.#hostOf(call), signal });
        return call.sampling.done;
      });
    } finally {
      this.#calls.delete(call);
    }
  }

  drawn(requestId: string): readonly Generated[] | null {
    const call = [...this.#calls].find(({ ids }) => ids.has(requestId));
    return call?.sampling?.drawn(requestId) ?? null;
  }

  async updateWeights(update: WeightUpdate): Promise<void> {
    this.#mustBeOpen("updateWeights");
    if (update.version === this.#version) return;
    const weights = update.via === "disk" ? await this.#read(update) : weightsOf(update); // begun before a resume that follows
    this.#decoder.check(weights);
    const swap = (): Promise<void> => this.#swap(update.version, weights);
    // A frozen call stands between two decodes, so it may go on with other weights; any other call ends first.
    await (this.#paused === "keep" ? swap() : this.#inTurn(swap));
  }

  weightVersion(): number | null {
    return this.#version;
  }

  async abort(requestIds: readonly string[] | "all"): Promise<void> {
    for (const call of this.#calls) {
      for (const id of requestIds === "all" ? call.ids : requestIds) if (call.ids.has(id)) call.aborted.add(id);
    }
  }

  async pause(mode: "abort" | "drain" | "keep"): Promise<void> {
    this.#paused = mode;
    this.#admission.shut();
    if (mode === "keep") return this.#thawing.shut();
    if (mode === "abort") await this.abort("all");
    await this.#thaw();
    await this.#turn;
  }

  async resume(): Promise<void> {
    this.#paused = null;
    await this.#thaw();
    if (this.#paused === null) this.#admission.open();
  }

  onLost(run: (cause: Error) => void): void {
    this.#decoder.onLost(run);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.abort("all");
    await this.resume();
    await this.#turn;
    await this.#decoder.close();
  }

  async #read({ version, path }: Extract<WeightUpdate, { via: "disk" }>): Promise<WeightsIn> {
    return weightsOf(inlineWeights(version, await loadWeightsFor(this.#decoder.model, path)));
  }

  #hostOf(call: Call): SamplerHost {
    return {
      slots: this.#slots,
      version: () => this.#mustHaveWeights(),
      isAborted: (requestId) => call.aborted.has(requestId),
      isFrozen: () => this.#thawing.isShut,
      thaw: (signal) => this.#thawing.passed(signal),
    };
  }

  /** Weights that did not come whole are none: what was there before is overwritten. */
  #swap(version: number, weights: WeightsIn): Promise<void> {
    const swapped = this.#swapped.then(async () => {
      await this.#decoder.load(weights);
      this.#version = version;
    });
    this.#swapped = swapped.catch(() => {
      this.#version = null; // why is told to whoever brought the weights
    });
    return swapped;
  }

  async #thaw(): Promise<void> {
    await this.#swapped;
    if (this.#paused !== "keep") this.#thawing.open();
  }

  #mustHaveWeights(): number {
    if (this.#version === null) throw errors.EngineNotReady({ operation: "generate", missing: "updateWeights()" });
    return this.#version;
  }

  /** Runs after everything that came before; a failure is the caller's alone. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(run);
    this.#turn = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }

  #mustBeOpen(operation: string): void {
    if (this.#closed) throw errors.EngineClosed({ operation });
  }
}

function weightsOf(update: Exclude<WeightUpdate, { via: "disk" }>): WeightsIn {
  if (update.via === "ranks")
    throw errors.EngineOptionInvalid({
      field: "via",
      value: update.via,
      rule: "inline, shards or disk for one process",
    });
  return update.via === "shards" ? { kind: "shards", shards: update.shards } : { kind: "whole", ...update };
}

function checkEmbeddedRequest(info: EngineInfo, request: GenerateRequest): void {
  const { promptIds, n, sampling, begun } = request;
  for (const option of ["topP", "topK"] as const) {
    const value = sampling[option];
    if (value !== undefined) throw errors.EngineOptionUnsupported({ option, value });
  }
  const require = checkRequest(info, request);
  const { temperature, maxNewTokens } = sampling;
  require(begun === undefined || begun.length === n, "begun responses", begun?.length ?? 0, `one for each of ${n}`);
  for (const { responseIds, logprobs } of begun ?? []) {
    const room = Math.min(maxNewTokens, info.maxContext - promptIds.length);
    require(responseIds.length <= room, "tokens of a begun response", responseIds.length, `at most ${room}`);
    require(logprobs.length === responseIds.length, "log-probs of a begun response", logprobs.length, "one per token");
    const odd = responseIds.find((id) => id < 0 || id >= info.vocab);
    require(odd === undefined, "a begun token", odd ?? 0, `below the vocabulary of ${info.vocab}`);
  }
  require(temperature === 0 ||
    (temperature >= 1e-3 && temperature <= 1e3), "temperature", temperature, "0, or 0.001 … 1000");
  require(Number.isInteger(maxNewTokens) && maxNewTokens >= 1, "maxNewTokens", maxNewTokens, "at least 1");
}
