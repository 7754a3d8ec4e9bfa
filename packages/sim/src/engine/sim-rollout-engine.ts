/**
 * A rollout engine whose responses are a pure function of (weights, seed, sample), and of what was begun of them by other weights: what it
 * takes is simulated time only.
 */
import { invariant, mixSeed, randomOf } from "@muster/base";
import type { EngineInfo, Generated, GenerateRequest, RolloutEngine, WeightUpdate } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
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
  /** True when it does so by a crash, which no signal from outside looks like. */
  crashes(promptIds: Int32Array): boolean;
  /** True when this prompt never lets go of the engine's main thread. */
  hangs(promptIds: Int32Array): boolean;
}

/** A call in flight: when it began, and how long it takes. */
interface Drawing {
  readonly requests: readonly GenerateRequest[];
  readonly startedMs: number;
  readonly spentMs: number;
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
  #drawing: Drawing | null = null;
  /** Calls and swaps run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(given: {
    readonly process: SimProcess;
    readonly shape: JobConfig["model"];
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
      const spent = requests.reduce((longest, request) => Math.max(longest, this.#leftMs(request)), 0);
      this.#drawing = { requests, startedMs: this.#process.clock.now(), spentMs: spent };
      try {
        await this.#process.sleep(spent / 2, signal);
        await this.#failpoints.pass(this.#process, "rollout.generate-midway");
        this.#succumb(requests);
        await this.#process.sleep(spent / 2, signal);
      } finally {
        this.#drawing = null;
      }
      signal.throwIfAborted();
      await this.#failpoints.pass(this.#process, "rollout.generated");
      return requests.map((request) => Array.from({ length: request.n }, (_, sample) => this.#draw(request, sample)));
    });
  }

  /** As much of each response as there was time for. */
  drawn(requestId: string): readonly Generated[] | null {
    const { requests = [], startedMs = 0, spentMs = 1 } = this.#drawing ?? {};
    const request = requests.find((one) => one.requestId === requestId);
    if (!request) return null;
    const share = Math.min(1, (this.#process.clock.now() - startedMs) / spentMs);
    return Array.from({ length: request.n }, (_, sample) => {
      const whole = this.#draw(request, sample);
      const known = request.begun?.[sample]?.responseIds.length ?? 0;
      const end = known + Math.floor(share * (whole.responseIds.length - known));
      if (end === whole.responseIds.length) return whole;
      const { responseIds, logprobs } = whole;
      return { ...whole, responseIds: responseIds.slice(0, end), logprobs: logprobs.slice(0, end), finish: "abort" };
    });
  }

  /** What a prompt does to the process that draws it. */
  #succumb(requests: readonly GenerateRequest[]): void {
    const killers = requests.filter(({ promptIds }) => this.#model.kills(promptIds));
    const [first] = killers;
    if (first && !this.#process.isDead)
      this.#process.signal = this.#model.crashes(first.promptIds) ? "SIGSEGV" : "SIGKILL";
    for (const killer of killers) this.#observer.killedBy(killer, this.#version ?? 0, this.#process);
    if (first) this.#process.kill();
    const hanger = requests.find(({ promptIds }) => this.#model.hangs(promptIds));
    if (hanger && !this.#process.isDead) this.#observer.hungBy(hanger, this.#process);
  }

  /** Time that a request takes, less for what was begun. */
  #leftMs({ seed, sampling, begun = [], n }: GenerateRequest): number {
    const known = begun.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
    return this.#model.responseMs(seed) * (1 - known / (n * sampling.maxNewTokens));
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

  #draw(request: GenerateRequest, sample: number): Generated {
    const fresh = this.#drawFresh(request, sample);
    const begun = request.begun?.[sample];
    if (!begun) return fresh;
    if (begun.finish) return { ...fresh, ...begun, finish: begun.finish };
    const from = begun.responseIds.length;
    // These weights may have ended it sooner than the others went: it ends now. A token is drawn in any case.
    const isOver = fresh.responseIds.length <= from;
    const ids = isOver ? [request.sampling.stopTokenIds[0] ?? 0] : fresh.responseIds.slice(from);
    const logprobs = isOver ? fresh.logprobs.slice(-1) : fresh.logprobs.slice(from);
    return {
      ...fresh,
      responseIds: Int32Array.from([...begun.responseIds, ...ids]),
      logprobs: Float32Array.from([...begun.logprobs, ...logprobs]),
      finish: isOver ? "stop" : fresh.finish,
    };
  }

  #drawFresh({ seed, sampling }: GenerateRequest, sample: number): Generated {
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
