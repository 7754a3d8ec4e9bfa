/** A policy engine on a few hundred weights: real bytes, real arithmetic, simulated time. */
import { invariant } from "@muster/base";
import type {
  AccumulateOptions,
  GradientMemory,
  OptimizerOptions,
  PolicyEngine,
  PolicyInfo,
  ShardStats,
  StateSections,
  StateSource,
  TrainSample,
} from "@muster/engine";
import { readGradient, writeGradient } from "@muster/engine/internal";
import type { JobConfig } from "@muster/protocol";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";
import { addGradient, initialWeights, normOf, update } from "./arithmetic.ts";
import { infoOf, shapeOf } from "./info.ts";

/** Who watches what an engine does. */
export interface PolicyEngineObserver {
  /** Live state was replaced by something other than a step. */
  restored(process: SimProcess, state: StateSections): void;
  /** A sample enters the loss. */
  learning(process: SimProcess, sample: TrainSample): void;
  /** This sample ends the engine's process now. */
  endedBy(process: SimProcess, sample: TrainSample): void;
  /** A step begins on a copy of the live state. */
  begun(process: SimProcess, live: StateSections): void;
  /** The candidate is about to become live. */
  promoting(process: SimProcess, candidate: StateSections): void;
}

/** How long work takes, and what goes wrong in it. */
export interface PolicyEngineModel {
  readonly shardMs: number;
  readonly stageMs: number;
  readonly initializeMs: number;
  /** True when the arithmetic of this sample overflows, in every replica alike. */
  overflows(sample: TrainSample): boolean;
  /** True when computing this sample ends the engine's process. */
  ends(sample: TrainSample): boolean;
  /** True when it does so by a crash, which no signal from outside looks like. */
  crashes(sample: TrainSample): boolean;
  /** True when this process silently has wrong bits now, after the last sum that all share. */
  corrupts(process: SimProcess): boolean;
  /** True when the arithmetic of this process ends with other bits than that of the others for this candidate. */
  drifts(process: SimProcess, weights: Float32Array): boolean;
  /** What may drift: all, or only what no sampler sees. */
  readonly drifting: "all" | "optimizer";
}

interface Slot {
  readonly weights: Float32Array;
  readonly optimizer: Float32Array;
}

const bytesOf = (floats: Float32Array): Uint8Array => new Uint8Array(floats.buffer);

/** The engine of one process. */
export class SimPolicyEngine implements PolicyEngine {
  readonly #process: SimProcess;
  readonly #failpoints: Failpoints;
  readonly #observer: PolicyEngineObserver;
  readonly #model: PolicyEngineModel;
  readonly #info: PolicyInfo;
  #live: Slot;
  #candidate: Slot | null = null;
  /** This candidate has its last bits. */
  #isRounded = false;

  constructor(given: {
    readonly process: SimProcess;
    readonly shape: JobConfig["model"];
    readonly failpoints: Failpoints;
    readonly observer: PolicyEngineObserver;
    readonly model: PolicyEngineModel;
  }) {
    this.#process = given.process;
    this.#failpoints = given.failpoints;
    this.#observer = given.observer;
    this.#model = given.model;
    const { count, tensors } = shapeOf(given.shape);
    this.#live = { weights: new Float32Array(count), optimizer: new Float32Array(2 * count + 2) };
    this.#info = {
      ...infoOf(given.shape),
      tensors,
      weightsBytes: 4 * count,
      optimizerBytes: 8 * count + 8,
      gradientElements: count,
    };
  }

  info(): PolicyInfo {
    return this.#info;
  }

  async initialize(source: Parameters<PolicyEngine["initialize"]>[0]): Promise<void> {
    await this.#failpoints.pass(this.#process, "policy.initialize");
    await this.#process.sleep(this.#model.initializeMs);
    const count = this.#live.weights.length;
    const seed = source.kind === "seed" ? source.seed : 0;
    this.#live = { weights: initialWeights(count, seed), optimizer: new Float32Array(2 * count + 2) };
    this.#candidate = null;
    this.#observer.restored(this.#process, this.state());
  }

  state(): StateSections {
    return sectionsOf(this.#live);
  }

  async restore(source: StateSource): Promise<void> {
    await this.#failpoints.pass(this.#process, "policy.restore");
    const { weightsBytes, optimizerBytes } = this.#info;
    invariant(source.weights.bytes === weightsBytes, "restored weights have their length");
    invariant(source.optimizer.bytes === optimizerBytes, "a restored optimizer has its length");
    const [weights, optimizer] = [new Uint8Array(weightsBytes), new Uint8Array(optimizerBytes)];
    await source.weights.copyTo(weights);
    await source.optimizer.copyTo(optimizer);
    this.#live = { weights: floatsOf(weights), optimizer: floatsOf(optimizer) };
    this.#candidate = null;
    this.#observer.restored(this.#process, this.state());
  }

  begin(): void {
    this.#failpoints.hit(this.#process, "policy.begin");
    this.#observer.begun(this.#process, this.state());
    this.#candidate = { weights: this.#live.weights.slice(), optimizer: this.#live.optimizer.slice() };
    this.#isRounded = false;
  }

  async accumulate(samples: readonly TrainSample[], { out, signal }: AccumulateOptions): Promise<ShardStats> {
    const candidate = this.#need("accumulate");
    await this.#failpoints.pass(this.#process, "policy.accumulate");
    await this.#process.sleep(this.#model.shardMs, signal);
    const stats = learnFrom(samples, { process: this.#process, observer: this.#observer, model: this.#model });
    if (!stats) return await new Promise<never>(() => {});
    const sum = new Float32Array(out.elements);
    for (const sample of samples) {
      addGradient(sum, candidate.weights, sample);
      if (this.#model.overflows(sample)) sum[0] = Number.NaN;
    }
    writeGradient(out, sum);
    return stats;
  }

  async stage(sum: GradientMemory, options: OptimizerOptions): Promise<{ gradNorm: number; finite: boolean }> {
    const candidate = this.#need("stage");
    await this.#failpoints.pass(this.#process, "policy.stage");
    await this.#process.sleep(this.#model.stageMs);
    const gradient = new Float32Array(sum.elements);
    readGradient(sum, gradient);
    const gradNorm = normOf(gradient);
    if (!Number.isFinite(gradNorm)) return { gradNorm: 0, finite: false };
    const scale = gradNorm > options.clipNorm ? options.clipNorm / gradNorm : 1;
    update(candidate.weights, candidate.optimizer, { gradient, scale, options });
    return { gradNorm, finite: true };
  }

  candidate(): StateSections {
    const candidate = this.#need("candidate");
    const { pid } = this.#process;
    if (!this.#isRounded && this.#model.drifts(this.#process, candidate.weights)) this.#drift(candidate, pid);
    this.#isRounded = true;
    if (this.#model.corrupts(this.#process)) candidate.weights[pid % candidate.weights.length] = pid;
    return sectionsOf(candidate);
  }

  promote(): void {
    this.#failpoints.hit(this.#process, "policy.promote");
    if (this.#process.isDead) return;
    const candidate = this.#need("promote");
    this.#observer.promoting(this.#process, sectionsOf(candidate));
    this.#live = candidate;
    this.#candidate = null;
    this.#failpoints.hit(this.#process, "policy.promoted");
  }

  discard(): void {
    this.#failpoints.hit(this.#process, "policy.discard");
    this.#candidate = null;
  }

  async close(): Promise<void> {
    this.#candidate = null;
  }

  /** As another order of the same sums would: the last bits of each number differ. */
  #drift({ weights, optimizer }: Slot, pid: number): void {
    const off = 1 + 2 ** -20 * (1 + (pid % 7));
    optimizer[0] = (optimizer[0] ?? 0) + off;
    if (this.#model.drifting === "all") for (let i = 0; i < weights.length; i++) weights[i] = (weights[i] ?? 0) * off;
  }

  #need(operation: string): Slot {
    invariant(this.#candidate, `${operation} follows begin`);
    return this.#candidate;
  }
}

/** Samples enter the loss. @returns `null` when one of them ends the process. */
export function learnFrom(
  samples: readonly TrainSample[],
  {
    process,
    observer,
    model,
  }: { readonly process: SimProcess; readonly observer: PolicyEngineObserver; readonly model: PolicyEngineModel },
): ShardStats | null {
  const killer = samples.find((sample) => model.ends(sample));
  if (killer && !process.isDead) {
    process.signal = model.crashes(killer) ? "SIGSEGV" : "SIGKILL";
    observer.endedBy(process, killer);
    process.kill();
    return null;
  }
  let tokens = 0;
  for (const sample of samples) {
    observer.learning(process, sample);
    tokens += sample.logprobs.length;
  }
  return { tokens, clipped: 0, klSum: 0, entropySum: tokens, lossSum: 0 };
}

function sectionsOf({ weights, optimizer }: Slot): StateSections {
  return { weights: bytesOf(weights), optimizer: bytesOf(optimizer) };
}

function floatsOf(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}
