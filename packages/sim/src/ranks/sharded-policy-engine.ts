/**
 * The engine of a trainer of several processes, as rank 0 has it: it tells the others what to do through a line of its own, in order, and waits for what
 * they answer. Who stands still answers late; when one of them is gone the engine is lost.
 */
import type {
  AccumulateOptions,
  GradientMemory,
  OptimizerOptions,
  PolicyEngine,
  PolicyInfo,
  RankCut,
  RankTraining,
  ShardStats,
  StateSections,
  TrainSample,
} from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { infoOf, shapeOf } from "../engine/info.ts";
import { learnFrom, type PolicyEngineModel, type PolicyEngineObserver } from "../engine/sim-policy-engine.ts";
import { errors } from "../errors.ts";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";
import { SimRank, wholeOf } from "./sim-rank.ts";

/** What a word from one rank to another takes, and what it takes to notice that one is gone. */
const wordMs = 1;
const noticeMs = 30;

const never = new AbortController().signal;

/** A rank's process, and its way to the data plane. */
export interface RankPlace {
  readonly process: SimProcess;
  readonly training: RankTraining;
}

/** The engine of the process of rank 0. */
export class ShardedPolicyEngine implements PolicyEngine {
  readonly #process: SimProcess;
  readonly #failpoints: Failpoints;
  readonly #observer: PolicyEngineObserver;
  readonly #model: PolicyEngineModel;
  readonly #info: PolicyInfo;
  readonly #count: number;
  readonly #own: SimRank;
  readonly #others: readonly SimRank[];
  readonly #waiting = new Set<(cause: Error) => void>();
  #lost: Error | null = null;
  #onLost: (cause: Error) => void = () => {};

  /** @param own - Of rank 0. @param others - Of ranks 1, 2 … */
  constructor(given: {
    readonly own: RankPlace;
    readonly others: readonly RankPlace[];
    readonly cut: RankCut;
    readonly shape: JobConfig["model"];
    readonly failpoints: Failpoints;
    readonly observer: PolicyEngineObserver;
    readonly model: PolicyEngineModel;
  }) {
    const { own, others, cut, shape, failpoints, observer, model } = given;
    const { count, tensors } = shapeOf(shape);
    const rankOf = (place: RankPlace, rank: number): SimRank =>
      new SimRank({ ...place, cut, rank, count, failpoints, observer, model });
    this.#process = own.process;
    this.#failpoints = failpoints;
    this.#observer = observer;
    this.#model = model;
    this.#count = count;
    this.#own = rankOf(own, 0);
    this.#others = others.map((place, i) => rankOf(place, i + 1));
    this.#info = {
      ...infoOf(shape),
      ranks: 1 + others.length,
      tensors,
      weightsBytes: 4 * count,
      optimizerBytes: this.#own.optimizerBytes,
      gradientElements: this.#own.elements,
    };
    for (const [i, { process }] of others.entries())
      process.onDeath(() => this.#process.after(noticeMs, () => this.#lose(errors.SimRankLost({ rank: i + 1 }))));
  }

  info(): PolicyInfo {
    return this.#info;
  }

  onLost(run: (cause: Error) => void): void {
    this.#onLost = run;
    if (this.#lost) run(this.#lost);
  }

  async initialize(source: Parameters<PolicyEngine["initialize"]>[0]): Promise<void> {
    await this.#failpoints.pass(this.#process, "policy.initialize");
    await this.#process.sleep(this.#model.initializeMs);
    const seed = source.kind === "seed" ? source.seed : 0;
    const shards = await this.#ask(async (rank) => {
      rank.initialize(seed);
      return shardOf(rank);
    });
    this.#observer.restored(this.#process, wholeOf(shards, this.#count));
  }

  state(): StateSections {
    return this.#own.state();
  }

  /** Each rank restores its own. */
  async restore(): Promise<void> {
    throw errors.SimRankRestore();
  }

  begin(): void {
    this.#failpoints.hit(this.#process, "policy.begin");
    this.#tell((rank) => rank.begin());
  }

  async accumulate(samples: readonly TrainSample[], options: AccumulateOptions): Promise<ShardStats> {
    const { shard = 0, epoch = 0, signal } = options;
    await this.#failpoints.pass(this.#process, "policy.accumulate");
    const given = { process: this.#process, observer: this.#observer, model: this.#model };
    const work = (rank: SimRank): Promise<void> =>
      rank.accumulate(samples, { shard, epoch }, rank === this.#own ? signal : undefined);
    await this.#ask(work, signal);
    return learnFrom(samples, given) ?? (await new Promise<never>(() => {}));
  }

  async stage(_: GradientMemory, options: OptimizerOptions): Promise<{ gradNorm: number; finite: boolean }> {
    await this.#failpoints.pass(this.#process, "policy.stage");
    const squares = await this.#ask((rank) => rank.square());
    const gradNorm = Math.sqrt(squares.reduce((sum, square) => sum + square, 0));
    if (!Number.isFinite(gradNorm)) return { gradNorm: 0, finite: false };
    const scale = gradNorm > options.clipNorm ? options.clipNorm / gradNorm : 1;
    await this.#ask(async (rank) => rank.apply(scale, options));
    return { gradNorm, finite: true };
  }

  candidate(): StateSections {
    return this.#own.candidate();
  }

  promote(): void {
    this.#failpoints.hit(this.#process, "policy.promote");
    if (this.#process.isDead) return;
    const shards = this.#ranks.map((rank) => ({ ...rank.staged(), places: rank.places }));
    this.#observer.promoting(this.#process, wholeOf(shards, this.#count));
    this.#tell((rank) => rank.promote());
    this.#failpoints.hit(this.#process, "policy.promoted");
  }

  discard(): void {
    this.#failpoints.hit(this.#process, "policy.discard");
    this.#tell((rank) => rank.discard());
  }

  async performAll(ticket: string, signal: AbortSignal): Promise<readonly string[]> {
    const all = await this.#ask(async (rank) => {
      const answer = await rank.perform(ticket, rank === this.#own ? signal : never);
      return { answer, ...shardOf(rank) };
    });
    const isRestored = ticket.includes('"do":"adopt"') && all.every(({ answer }) => answer.includes('"done"'));
    if (isRestored) this.#observer.restored(this.#process, wholeOf(all, this.#count));
    return all.map(({ answer }) => answer);
  }

  async close(): Promise<void> {
    this.#lose(errors.SimRankLost({ rank: 0 }), false);
  }

  get #ranks(): readonly SimRank[] {
    return [this.#own, ...this.#others];
  }

  /** All ranks do it, and nobody waits for the others. */
  #tell(run: (rank: SimRank) => void): void {
    run(this.#own);
    for (const rank of this.#others) say(rank.process, rank.line, () => run(rank));
  }

  /** What all ranks answer. @throws when one of them is gone, when one fails, when it is given up */
  #ask<T>(work: (rank: SimRank) => Promise<T>, signal?: AbortSignal): Promise<T[]> {
    return new Promise((resolve, reject) => {
      const stop = (): void => over(signal?.reason);
      const over = (cause: Error): void => {
        this.#waiting.delete(over);
        signal?.removeEventListener("abort", stop);
        reject(cause);
      };
      if (this.#lost) return over(this.#lost);
      this.#waiting.add(over);
      signal?.addEventListener("abort", stop, { once: true });
      Promise.all([work(this.#own), ...this.#others.map((rank) => this.#call(rank, work))]).then((all) => {
        this.#waiting.delete(over);
        signal?.removeEventListener("abort", stop);
        resolve(all);
      }, over);
    });
  }

  /** Another rank does it when it hears of it, and rank 0 hears what came of it. */
  #call<T>(rank: SimRank, work: (rank: SimRank) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const back = (run: () => void): void => say(this.#process, this.#own.line, run);
      say(rank.process, rank.line, () =>
        work(rank).then(
          (done) => back(() => resolve(done)),
          (error: unknown) => back(() => reject(error)),
        ),
      );
    });
  }

  #lose(cause: Error, isNews = true): void {
    if (this.#lost) return;
    this.#lost = cause;
    for (const over of [...this.#waiting]) over(cause);
    if (isNews) this.#onLost(cause);
  }
}

/** Says something to a process. It hears words in their order, whenever it runs. */
function say(to: SimProcess, line: (() => void)[], word: () => void): void {
  line.push(word);
  to.world.after(wordMs, () => to.enter(() => line.shift()?.()));
}

/** What a rank has now: later it may have something else. */
function shardOf(rank: SimRank) {
  const { weights, optimizer } = rank.state();
  return { weights: weights.slice(), optimizer: optimizer.slice(), places: rank.places };
}
