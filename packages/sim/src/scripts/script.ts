/** The ranks of a script beside a job: started, killed and started again, and what they are told compared with what they said. */
import { MusterError, randomOf } from "@muster/base";
import { BarrierChecker, type Judge } from "@muster/check/internal";
import { decodeMessage } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import type { AnyNetwork } from "../net/network.ts";
import { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";
import { type Position, Rank, type RankObserver } from "./rank.ts";
import type { ScriptShape } from "./script-shape.ts";

/** What a controller that lives takes to end a barrier, and to say so. */
const promptMs = 5_000;

/** Two deadlines, a controller's succession, and ranks that come back. */
const graceMs = 45_000;

/** Time after the last fault until everything is as it should be. */
const settledMs = 10_000;

/** Ids of these processes begin here, behind those of the job. */
const pidBase = 500_000;

/** What a script runs in. */
export interface ScriptGiven {
  readonly scenario: Scenario;
  readonly shape: ScriptShape;
  readonly judge: Judge;
  readonly network: AnyNetwork;
  /** True once the job is over: then the ranks end. */
  readonly isJobOver: () => boolean;
}

/** The ranks of one script. */
export class Script {
  readonly #world: World;
  readonly #given: ScriptGiven;
  readonly #checker: BarrierChecker;
  readonly #processes = new Map<number, SimProcess>();
  readonly #positions: readonly Position[];
  readonly #finished = new Set<number>();
  #lives = 0;

  constructor(world: World, given: ScriptGiven) {
    this.#world = world;
    this.#given = given;
    this.#checker = new BarrierChecker(given.judge, given.shape);
    this.#positions = Array.from({ length: given.shape.ranks }, () => ({ epoch: 0, iteration: 0, at: 0 }));
  }

  /** True when no rank runs. */
  get isOver(): boolean {
    return [...this.#processes.values()].every(({ isDead }) => isDead);
  }

  /** Starts the ranks, and arms their deaths. */
  start(): void {
    const { shape, network } = this.#given;
    for (let rank = 0; rank < shape.ranks; rank++) this.#world.after(3_000 + rank * 200, () => this.#begin(rank));
    for (const { atMs, rank } of shape.deaths) this.#world.after(atMs, () => this.#processes.get(rank)?.kill());
    const handle = ({ data }: { readonly data: Uint8Array }): void => {
      const message = decodeMessage(data);
      if (message.kind === "barrier.ended") this.#checker.ended(message.body);
    };
    void network.store.tail({ stream: "events", fromSeq: "new", handle });
  }

  #begin(rank: number): void {
    const { scenario, shape, judge, network } = this.#given;
    if (this.#given.isJobOver() || this.#finished.has(rank)) return;
    const life = ++this.#lives;
    const random = randomOf(scenario.seed, rank, life, 211);
    const process = new SimProcess(this.#world, {
      ...{ name: `rank-${rank}#${life}`, node: `rank-${rank}`, role: "rank", pid: pidBase + life },
      ...{ clockOffsetMs: random.below(1_000_000), clockRate: 0.99 + 0.02 * random.next() },
    });
    judge.note(`${process.name} starts`);
    this.#processes.set(rank, process);
    process.onDeath(() => this.#gone(rank, random.next()));
    const position = this.#positions[rank] as Position;
    const { job } = scenario.config;
    const run = new Rank({ rank, shape, position, process, network, job, random, observer: this.#observer }).run();
    const finished = (): void => {
      this.#finished.add(rank);
      process.end();
    };
    void run.then(finished, (error: unknown) => {
      // The broker was away when it began: the script ends with that, and is started again.
      if (!(error instanceof MusterError && error.retryable)) throw error;
      process.kill();
    });
    this.#leaveWhenOver(process);
  }

  #gone(rank: number, luck: number): void {
    const awayMs = 200 + luck * this.#given.shape.awayMs;
    if (!this.#finished.has(rank)) this.#world.after(awayMs, () => this.#begin(rank));
  }

  #leaveWhenOver(process: SimProcess): void {
    if (process.isDead) return;
    if (this.#given.isJobOver()) process.end();
    else this.#world.after(1_000, () => this.#leaveWhenOver(process));
  }

  readonly #observer: RankObserver = {
    arrives: (body) => {
      if (!this.#checker.arrives(body)) return;
      const { scenario, shape } = this.#given;
      const calmMs = this.#world.nowMs - scenario.safetyMs;
      const check = (afterMs: number): void => {
        this.#world.after(afterMs, () => {
          if (!this.#given.isJobOver() && body.rank < body.ranks) this.#checker.overdue(body);
        });
      };
      check(Math.max(0, -calmMs) + 2 * shape.timeoutMs + graceMs);
      if (shape.onMissing === "abort" && calmMs > settledMs) check(shape.timeoutMs + promptMs);
    },
    follows: (rank, answer) => {
      this.#given.judge.note(`rank ${rank} is told ${answer.kind}`);
      if (answer.kind === "barrier.ended" && answer.body.outcome !== "aborted") this.#checker.passes(rank, answer.body);
    },
    stuck: (rank, reason) => {
      this.#given.judge.require(false, "L9", () => `rank ${rank} says what the others say, and is refused: ${reason}`);
    },
  };
}
