/** One life of one rank of a script: it works, arrives, waits for the answer and does what that says, as a script around `muster barrier` does. */
import { noMetrics, type Random, silentLogger } from "@muster/base";
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  type Enveloper,
  subjectsOf,
} from "@muster/protocol";
import { createOutbox, type Outbox } from "@muster/runtime";
import type { AnyNetwork } from "../net/network.ts";
import type { SimProcess } from "../world/process.ts";
import type { ScriptShape } from "./script-shape.ts";

type Arrival = Body<"barrier.arrived">;

/** What a rank hears of an arrival. */
type Answer = Extract<AnyMessage, { kind: "barrier.ended" | "barrier.refused" }>;

/** Where a rank is; it outlives the process, as a file on its disk does. */
export interface Position {
  epoch: number;
  iteration: number;
  /** Index into the phases of the script. */
  at: number;
}

/** Who watches ranks. */
export interface RankObserver {
  /** It says that it is there, in its own name or in that of another. */
  arrives(body: Arrival): void;
  /** It goes on, or gives up an attempt, because of this answer. */
  follows(rank: number, answer: Answer): void;
  /** It was told something that it can do nothing with. */
  stuck(rank: number, reason: string): void;
}

/** An arrival that nobody has answered is said again after this time. */
const againMs = 5_000;

/** Items that a rank has finished at the end of a phase: some of its part. */
const doneShare = 0.7;

/** What a rank is made of. */
export interface RankGiven {
  readonly rank: number;
  readonly shape: ScriptShape;
  readonly position: Position;
  readonly process: SimProcess;
  readonly network: AnyNetwork;
  readonly job: string;
  readonly random: Random;
  readonly observer: RankObserver;
}

/** A rank in its process. */
export class Rank {
  readonly #given: RankGiven;
  readonly #enveloper: Enveloper;
  /** Whoever lies is another program: what it is told is no answer to this one. */
  readonly #liar: Enveloper;
  #outbox: Outbox | null = null;
  #waiting: ((answer: Answer) => void) | null = null;
  /** Id of what it said last. */
  #said = "";

  constructor(given: RankGiven) {
    this.#given = given;
    const { job, process, rank } = given;
    const identity = { job, id: `rank-${rank}`, role: "operator", incarnation: `i${process.pid}` } as const;
    const wallMs = (): number => Math.floor(process.world.nowMs);
    this.#enveloper = createEnveloper({ ...identity, wallMs });
    this.#liar = createEnveloper({ ...identity, incarnation: `i${process.pid}-liar`, wallMs });
  }

  /** Works until the script is over. Never settles once the process is dead. */
  async run(): Promise<void> {
    const { process, network, position, shape, random } = this.#given;
    const transport = await network.connect(process);
    const options = { transport, clock: process.clock, random, logger: silentLogger, metrics: noMetrics };
    this.#outbox = createOutbox({ ...options, outboxMax: 1_000, onFailed: () => {} });
    await transport.tail({ stream: "events", fromSeq: "new", handle: ({ data }) => this.#hear(decodeMessage(data)) });
    while (position.iteration < shape.iterations) {
      await process.sleep(shape.workMs * (0.2 + 1.6 * random.next()));
      if (random.next() < shape.lieRate) this.#say(this.#lie(), this.#liar);
      const answer = await this.#arrive(this.#arrival());
      if (!this.#follow(answer)) return;
    }
  }

  #arrival(): Arrival {
    const { rank, shape, position, random } = this.#given;
    const { ranks, weights, quorum, timeoutMs, onMissing, items } = shape;
    const { epoch, iteration, at } = position;
    const part = Math.floor(items / ranks);
    const to = Math.floor(part * (rank + (random.next() < 0.5 ? 1 : doneShare)));
    const done = at === 0 || part === 0 ? [] : [{ from: part * rank, to: Math.max(part * rank, to) }];
    return {
      ...{ epoch, iteration, phase: shape.phases[at] ?? 0, rank, ranks },
      ...{ weights: [...weights], quorum, timeoutMs, onMissing, items, done },
      ...(rank === 0 ? { decision: `go-${iteration}` } : {}),
    };
  }

  /** What can not be, or what another rank should have said. */
  #lie(): Arrival {
    const said = this.#arrival();
    const { ranks } = said;
    const lies: readonly Partial<Arrival>[] = [
      { rank: ranks },
      { quorum: ranks + 1 },
      { weights: [1] },
      { done: [{ from: 0, to: (said.items ?? 0) + 1 }] },
      { rank: (said.rank + 1) % ranks, done: [] },
    ];
    const { decision: _, ...plain } = said;
    return { ...plain, ...lies[this.#given.random.below(lies.length)] };
  }

  #say(body: Arrival, enveloper = this.#enveloper): void {
    this.#given.observer.arrives(body);
    const subject = subjectsOf(this.#given.job).report("operator", `rank-${this.#given.rank}`, "barrier.arrived");
    const message = enveloper.stamp("barrier.arrived", body);
    this.#said = message.id;
    this.#outbox?.offer({ subject, message });
  }

  #arrive(body: Arrival): Promise<Answer> {
    const { process } = this.#given;
    return new Promise((resolve) => {
      let again = (): void => {};
      const say = (): void => {
        this.#say(body);
        again = process.after(againMs, say);
      };
      this.#waiting = (answer) => {
        if (!isAbout(answer, body, `rank-${this.#given.rank} i${process.pid}`)) return;
        this.#waiting = null;
        again();
        resolve(answer);
      };
      say();
    });
  }

  #hear(message: AnyMessage): void {
    if (message.kind === "barrier.ended" || message.kind === "barrier.refused") this.#waiting?.(message);
    const { rank, observer } = this.#given;
    if (message.kind === "message.refused" && message.body.id === this.#said) observer.stuck(rank, message.body.detail);
  }

  /** @returns False when there is nothing more to do. */
  #follow(answer: Answer): boolean {
    const { rank, position, shape, observer } = this.#given;
    observer.follows(rank, answer);
    if (answer.kind === "barrier.refused") return this.#amend(answer.body.reason);
    if (answer.body.outcome === "aborted") {
      // All begin anew at one place, wherever each of them was.
      Object.assign(position, { epoch: answer.body.epoch + 1, iteration: 0, at: 0 });
      return !answer.body.reason.startsWith("the job");
    }
    position.at += 1;
    if (position.at === shape.phases.length) Object.assign(position, { iteration: position.iteration + 1, at: 0 });
    return true;
  }

  /** Does what a refusal asks for. */
  #amend(reason: string): boolean {
    const { rank, position, observer } = this.#given;
    if (reason.startsWith("the job is ending")) return false;
    const epoch = /epoch (\d+) has begun|the job is in epoch (\d+)/.exec(reason);
    const back = /come back at phase 0 of iteration (\d+)/.exec(reason);
    if (epoch) Object.assign(position, { epoch: Number(epoch[1] ?? epoch[2]), iteration: 0, at: 0 });
    else if (back) Object.assign(position, { iteration: Number(back[1]), at: 0 });
    else if (reason.includes("is over and forgotten"))
      Object.assign(position, { iteration: position.iteration + 1, at: 0 });
    else observer.stuck(rank, reason);
    return true;
  }
}

/** True for the answer to an arrival, also when another life of the same rank has asked. */
function isAbout({ kind, body }: Answer, at: Arrival, sender: string): boolean {
  if (body.epoch !== at.epoch || body.iteration !== at.iteration || body.phase !== at.phase) return false;
  if (kind === "barrier.ended") return body.outcome === "aborted" || body.arrived.includes(at.rank);
  return body.rank === at.rank && (body.by === sender || body.by === "");
}
