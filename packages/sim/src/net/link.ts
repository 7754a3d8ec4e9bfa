/** One connection between a process and the broker, in both directions, with everything that can be wrong with it. */
import type { Random } from "@muster/base";
import type { World } from "../world/world.ts";

/** How good the network is. Probabilities are per message. */
export interface Noise {
  /** Least delay of a message one way. */
  readonly delayMs: number;
  /** Mean of the delay that comes on top. */
  readonly jitterMs: number;
  /** Loss of what is not stored: heartbeats. */
  readonly coreLoss: number;
  /** Loss of answers and acknowledgements: what was asked for may have happened. */
  readonly answerLoss: number;
  /** Second delivery of the same message. */
  readonly duplicates: number;
  /** Messages of one connection may overtake each other. */
  readonly reorder: boolean;
}

/** A network without faults. */
export const quietNoise: Noise = {
  delayMs: 0.3,
  jitterMs: 0.5,
  coreLoss: 0,
  answerLoss: 0,
  duplicates: 0,
  reorder: false,
};

/** Messages that a connection keeps while it cannot send. */
const backlogMax = 512;

/** One connection. */
export class Link {
  readonly name: string;
  /** Cut by a partition that nobody has noticed yet: what is sent that way is lost. */
  isCutUp = false;
  isCutDown = false;
  /** The broker and the client agree that they are connected. */
  isConnected = true;
  /** What waits for the connection: sent late, in one go, when it is back. */
  readonly #backlog: (() => void)[] = [];
  readonly #world: World;
  readonly #random: Random;
  readonly #noise: () => Noise;
  #lastUpMs = 0;
  #lastDownMs = 0;

  constructor(name: string, world: World, options: { readonly random: Random; readonly noise: () => Noise }) {
    this.name = name;
    this.#world = world;
    this.#random = options.random;
    this.#noise = options.noise;
  }

  /** Carries something to the broker; while that cannot be, it waits and is carried late. */
  up(arrive: () => void, extraMs = 0): void {
    if (!this.isConnected || this.isCutUp) {
      if (this.#backlog.length < backlogMax) this.#backlog.push(() => this.up(arrive, extraMs));
      return;
    }
    const atMs = this.#arrivalMs(this.#lastUpMs, extraMs);
    if (extraMs === 0) this.#lastUpMs = atMs;
    this.#world.after(atMs - this.#world.nowMs, () => this.isCutUp || arrive());
  }

  /** The connection carries again: what waited goes first. */
  flush(): void {
    for (const send of this.#backlog.splice(0)) send();
  }

  /** What was on its way in a broken connection is lost with it. */
  forget(): void {
    this.#backlog.length = 0;
  }

  /** Carries something from the broker; lost when cut or disconnected meanwhile. */
  down(arrive: () => void, extraMs = 0): void {
    if (!this.isConnected || this.isCutDown) return;
    const atMs = this.#arrivalMs(this.#lastDownMs, extraMs);
    if (extraMs === 0) this.#lastDownMs = atMs;
    this.#world.after(atMs - this.#world.nowMs, () => (this.isConnected && !this.isCutDown ? arrive() : undefined));
  }

  /** True with the probability of one kind of noise. */
  suffers(kind: "coreLoss" | "answerLoss" | "duplicates"): boolean {
    const rate = this.#noise()[kind];
    return rate > 0 && this.#random.next() < rate;
  }

  #arrivalMs(lastMs: number, extraMs: number): number {
    const { delayMs, jitterMs, reorder } = this.#noise();
    const drawn = this.#world.nowMs + delayMs - jitterMs * Math.log(1 - this.#random.next()) + extraMs;
    return reorder ? drawn : Math.max(drawn, lastMs);
  }
}
