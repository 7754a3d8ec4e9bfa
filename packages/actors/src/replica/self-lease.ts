/**
 * A replica's lease on its own membership (reliability C1): whoever was cut off from the broker, or stood still, for as long as the controller
 * waits before it gives a member up, may have been given up. It starts nothing for the mesh or a lease until the controller has
 * answered it again; what it holds it keeps.
 */
import type { Clock } from "@muster/base";
import type { Kind } from "@muster/protocol";

/** Orders that a replica must not begin on an old word. */
const boundKinds: readonly Kind[] = ["mesh.build", "step.run", "groups.lease"];

const lookEveryMs = 1_000;

/** Whether this life may still count itself a member. */
export class SelfLease {
  readonly #clock: Clock;
  /** Asks the controller whether this life is still a member. */
  readonly #ask: () => void;
  #limitMs = Number.POSITIVE_INFINITY;
  #isConnected = true;
  #awakeMs: number;
  /** Since when the broker is away. */
  #awayMs = Number.POSITIVE_INFINITY;
  #hasLapsed = false;
  #cancel: () => void = () => {};

  constructor(clock: Clock, ask: () => void) {
    this.#clock = clock;
    this.#ask = ask;
    this.#awakeMs = clock.now();
  }

  /** The controller has answered: this life is a member, and may be silent for `limitMs`. */
  renew(limitMs: number): void {
    this.#limitMs = limitMs;
    this.#awakeMs = this.#clock.now();
    this.#hasLapsed = false;
    this.#cancel();
    this.#wait();
  }

  /** The connection to the broker came or went. */
  connected(isConnected: boolean): void {
    this.#look();
    this.#isConnected = isConnected;
    this.#awayMs = isConnected ? Number.POSITIVE_INFINITY : Math.min(this.#awayMs, this.#clock.now());
    if (isConnected && this.#hasLapsed) this.#ask();
  }

  /** True when an order may be begun. Looks at the time itself: after a pause messages come before timers. */
  admits(kind: Kind): boolean {
    this.#look();
    return !this.#hasLapsed || !boundKinds.includes(kind);
  }

  stop(): void {
    this.#cancel();
  }

  #wait(): void {
    this.#cancel = this.#clock.after(lookEveryMs, () => {
      this.#look();
      this.#wait();
    });
  }

  #look(): void {
    const nowMs = this.#clock.now();
    const hasSlept = nowMs - this.#awakeMs >= this.#limitMs;
    this.#awakeMs = nowMs;
    if (this.#hasLapsed || !(hasSlept || nowMs - this.#awayMs >= this.#limitMs)) return;
    this.#hasLapsed = true;
    if (this.#isConnected) this.#ask();
  }
}
