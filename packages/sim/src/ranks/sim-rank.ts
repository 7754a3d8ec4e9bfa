/** One process of a simulated trainer of several: its shard of the weights and the optimizer, and its part of each gradient. */
import { cutInto, regionsOf } from "@muster/actors/internal";
import { invariant } from "@muster/base";
import type { OptimizerOptions, RankCut, RankTraining, StateSections, StateSource, TrainSample } from "@muster/engine";
import { readGradient, writeGradient } from "@muster/engine/internal";
import { addGradient, initialWeights, update } from "../engine/arithmetic.ts";
import type { PolicyEngineModel, PolicyEngineObserver } from "../engine/sim-policy-engine.ts";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";

/** Which process, and what it stands on. */
export interface SimRankGiven {
  readonly process: SimProcess;
  readonly training: RankTraining;
  readonly cut: RankCut;
  readonly rank: number;
  /** Numbers of the whole model. */
  readonly count: number;
  readonly failpoints: Failpoints;
  readonly observer: PolicyEngineObserver;
  readonly model: PolicyEngineModel;
}

interface Slot {
  readonly weights: Float32Array;
  readonly optimizer: Float32Array;
}

/** What a shard is computed for. */
export interface ShardAt {
  readonly shard: number;
  readonly epoch: number;
}

const bytesOf = (floats: Float32Array): Uint8Array => new Uint8Array(floats.buffer);

/** A rank. It does what it is told at once; only what takes time goes on beside other things. */
export class SimRank {
  readonly process: SimProcess;
  /** For each number of the shard its place in the whole, from 1; 0 where nothing is. */
  readonly places: Int32Array;
  /** Words on their way to it, in the order in which they were said. */
  readonly line: (() => void)[] = [];
  readonly #given: SimRankGiven;
  #live: Slot;
  #candidate: Slot | null = null;
  #heard: Promise<void> = Promise.resolve();

  constructor(given: SimRankGiven) {
    const { process, training, cut, rank, count } = given;
    this.#given = given;
    this.process = process;
    const own = new Uint8Array(training.bytes);
    cutInto(regionsOf(null, cut, rank), bytesIn(Int32Array.from({ length: count }, (_, i) => i + 1)), own);
    this.places = new Int32Array(own.buffer);
    this.#live = this.#fresh();
    training.attach({
      optimizerBytes: this.optimizerBytes,
      gradientElements: this.elements,
      state: () => this.state(),
      candidate: () => this.candidate(),
      restore: (source) => this.#restore(source),
    });
  }

  get elements(): number {
    return this.places.length;
  }

  get optimizerBytes(): number {
    return 8 * this.elements + 8;
  }

  state(): StateSections {
    return sectionsOf(this.#live);
  }

  candidate(): StateSections {
    const candidate = this.#need("candidate");
    const { pid } = this.process;
    if (this.#given.model.corrupts(this.process)) candidate.weights[pid % candidate.weights.length] = pid;
    return sectionsOf(candidate);
  }

  /** The candidate as it is. */
  staged(): StateSections {
    return sectionsOf(this.#need("promote"));
  }

  initialize(seed: number): void {
    this.#live = this.#fresh();
    const { cut, rank, count } = this.#given;
    cutInto(regionsOf(null, cut, rank), bytesOf(initialWeights(count, seed)), bytesOf(this.#live.weights));
    this.#candidate = null;
  }

  begin(): void {
    this.#given.observer.begun(this.process, this.state());
    this.#candidate = { weights: this.#live.weights.slice(), optimizer: this.#live.optimizer.slice() };
  }

  /** Computes this rank's part of the gradient of a shard, and writes it when it is done: by then its epoch may be over. */
  async accumulate(samples: readonly TrainSample[], { shard, epoch }: ShardAt, signal?: AbortSignal): Promise<void> {
    const { failpoints, model, training } = this.#given;
    const { weights } = this.#need("accumulate");
    await failpoints.pass(this.process, "policy.rank-accumulate");
    await this.process.sleep(model.shardMs, signal);
    const sum = new Float32Array(this.elements);
    for (const sample of samples) {
      addGradient(sum, weights, sample, this.places);
      if (model.overflows(sample) && this.places[0] === 1) sum[0] = Number.NaN;
    }
    writeGradient(training.gradient(shard, epoch), sum);
  }

  /** Its share of the squared norm of the gradient. */
  async square(): Promise<number> {
    await this.process.sleep(this.#given.model.stageMs);
    return this.#sum().reduce((all, value) => all + value * value, 0);
  }

  apply(scale: number, options: OptimizerOptions): void {
    const { weights, optimizer } = this.#need("stage");
    update(weights, optimizer, { gradient: this.#sum(), scale, options });
  }

  promote(): void {
    this.#live = this.#need("promote");
    this.#candidate = null;
  }

  discard(): void {
    this.#candidate = null;
  }

  /** Does what rank 0 hands on, once it has begun with what came before: a ticket that is late holds up those behind it. */
  async perform(ticket: string, signal: AbortSignal): Promise<string> {
    const { failpoints, training } = this.#given;
    const heard = this.#heard.then(() => failpoints.pass(this.process, "policy.rank-ticket"));
    this.#heard = heard.catch(() => {});
    await heard;
    const answer = await training.perform(ticket, signal);
    await failpoints.pass(this.process, "policy.rank-answer");
    return answer;
  }

  async #restore({ weights, optimizer }: StateSource): Promise<void> {
    await this.#given.failpoints.pass(this.process, "policy.restore");
    const taken = this.#fresh();
    await weights.copyTo(bytesOf(taken.weights));
    await optimizer.copyTo(bytesOf(taken.optimizer));
    this.#live = taken;
    this.#candidate = null;
  }

  #sum(): Float32Array {
    const gradient = new Float32Array(this.elements);
    readGradient(this.#given.training.sum(), gradient);
    return gradient;
  }

  #fresh(): Slot {
    return { weights: new Float32Array(this.elements), optimizer: new Float32Array(2 * this.elements + 2) };
  }

  #need(operation: string): Slot {
    invariant(this.#candidate, `${operation} follows begin`);
    return this.#candidate;
  }
}

function bytesIn(values: Int32Array): Uint8Array {
  return new Uint8Array(values.buffer);
}

function sectionsOf({ weights, optimizer }: Slot): StateSections {
  return { weights: bytesOf(weights), optimizer: bytesOf(optimizer) };
}

/** The whole of what ranks have: each number of the weights at its place, and one shard of the optimizer behind the other. Pure. */
export function wholeOf(
  shards: readonly (StateSections & { readonly places: Int32Array })[],
  count: number,
): StateSections {
  const weights = new Float32Array(count);
  for (const { weights: bytes, places } of shards) {
    const own = new Float32Array(bytes.buffer, bytes.byteOffset, places.length);
    for (const [i, place] of places.entries()) if (place > 0) weights[place - 1] = own[i] ?? 0;
  }
  return { weights: bytesOf(weights), optimizer: Buffer.concat(shards.map(({ optimizer }) => optimizer)) };
}
