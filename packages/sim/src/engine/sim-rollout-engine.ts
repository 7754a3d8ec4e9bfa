/** A rollout engine whose responses are a pure function of (weights, seed, sample): what it takes is simulated time only. */
import { invariant, mixSeed, randomOf } from "@muster/base";
import type { EngineInfo, Generated, GenerateRequest, ModelConfig, RolloutEngine, WeightUpdate } from "@muster/engine";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";
import { hashOf } from "./arithmetic.ts";
import { infoOf } from "./info.ts";

/** Who watches what an engine does. */
export interface RolloutEngineObserver {
  /** These bytes serve from now on under this engine version. */
  serving(process: SimProcess, version: number, weights: Uint8Array): void;
  /** A call begins. */
  drawing(process: SimProcess, requests: readonly GenerateRequest[]): void;
  /** This request ends the engine's process now. */
  killedBy(request: GenerateRequest, version: number, process: SimProcess): void;
  /** This request hangs the engine's process from now on, until somebody ends it. */
  hungBy(request: GenerateRequest, process: SimProcess): void;
}

/** How long work takes, and what goes wrong in it. */
export interface RolloutEngineModel {
  /** Time of one response; a call takes as long as its longest. */
  responseMs(seed: number): number;
  readonly swapMs: number;
  /** True when this prompt ends the engine's process. */
  kills(promptIds: Int32Array): boolean;
  /** True when this prompt never lets go of the engine's main thread. */
  hangs(promptIds: Int32Array): boolean;
}

/** The engine of one process. */
export class SimRolloutEngine implements RolloutEngine {
  readonly #process: SimProcess;
  readonly #failpoints: Failpoints;
  readonly #observer: RolloutEngineObserver;
  readonly #model: RolloutEngineModel;
  readonly #info: EngineInfo;
  #version: number | null = null;
  #weightsHash = 0;
  /** Calls and swaps run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(given: {
    readonly process: SimProcess;
    readonly shape: ModelConfig;
    readonly failpoints: Failpoints;
    readonly observer: RolloutEngineObserver;
    readonly model: RolloutEngineModel;
  }) {
    this.#process = given.process;
    this.#failpoints = given.failpoints;
    this.#observer = given.observer;
    this.#model = given.model;
    this.#info = infoOf(given.shape);
  }

  info(): EngineInfo {
    return this.#info;
  }

  /** A check that generates waits in line, so an engine that hangs in a swap fails it. */
  async health({ deep }: Parameters<RolloutEngine["health"]>[0]): ReturnType<RolloutEngine["health"]> {
    if (this.#version === null) return { ok: false, state: "starting" };
    if (deep) await this.#inTurn(async () => {});
    return { ok: true, state: "up" };
  }

  generate(requests: readonly GenerateRequest[], signal: AbortSignal): Promise<readonly (readonly Generated[])[]> {
    return this.#inTurn(async () => {
      this.#observer.drawing(this.#process, requests);
      await this.#failpoints.pass(this.#process, "rollout.generate");
      const spent = requests.reduce((longest, { seed }) => Math.max(longest, this.#model.responseMs(seed)), 0);
      await this.#process.sleep(spent / 2, signal);
      await this.#failpoints.pass(this.#process, "rollout.generate-midway");
      const killers = requests.filter(({ promptIds }) => this.#model.kills(promptIds));
      for (const killer of killers) this.#observer.killedBy(killer, this.#version ?? 0, this.#process);
      if (killers.length > 0) this.#process.kill();
      const [hanger] = requests.filter(({ promptIds }) => this.#model.hangs(promptIds));
      if (hanger && !this.#process.isDead) this.#observer.hungBy(hanger, this.#process);
      await this.#process.sleep(spent / 2, signal);
      signal.throwIfAborted();
      await this.#failpoints.pass(this.#process, "rollout.generated");
      return requests.map((request) => Array.from({ length: request.n }, (_, sample) => this.#draw(request, sample)));
    });
  }

  updateWeights(update: WeightUpdate): Promise<void> {
    return this.#inTurn(async () => {
      await this.#failpoints.pass(this.#process, "rollout.swap");
      await this.#process.sleep(this.#model.swapMs);
      invariant(update.via === "inline", "weights come inline");
      const data = new Uint8Array(update.bytes);
      await update.copyTo(data);
      this.#version = update.version;
      this.#weightsHash = hashOf(data);
      this.#observer.serving(this.#process, update.version, data);
      await this.#failpoints.pass(this.#process, "rollout.swapped");
    });
  }

  weightVersion(): number | null {
    return this.#version;
  }

  async abort(): Promise<void> {}
  async pause(): Promise<void> {}
  async resume(): Promise<void> {}
  async close(): Promise<void> {}

  #draw({ seed, sampling }: GenerateRequest, sample: number): Generated {
    const random = randomOf(mixSeed(this.#weightsHash, seed, sample));
    const length = 1 + random.below(sampling.maxNewTokens);
    const responseIds = Int32Array.from({ length }, () => 1 + random.below(this.#info.vocab - 1));
    const isStopped = random.next() < 0.8;
    if (isStopped) responseIds[length - 1] = sampling.stopTokenIds[0] ?? 0;
    const version = this.#version ?? 0;
    return {
      responseIds,
      logprobs: Float32Array.from({ length }, () => -random.next()),
      finish: isStopped ? "stop" : "length",
      versionAtStart: version,
      versionAtEnd: version,
    };
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }
}
