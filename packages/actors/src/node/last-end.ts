/** How a keeper waits for the end of all its processes, in production and in simulation. */
import type { Clock } from "@muster/base";

/** Time that processes which were asked to end have before they are killed. */
const closeGraceMs = 2_000;

/** The end of everything that a keeper holds. */
export class LastEnd {
  #wake: () => void = () => {};

  /** One of the processes has ended, and is not held any more. */
  oneEnded(): void {
    this.#wake();
  }

  /** Waits until nothing is held; what is left after the grace is killed. */
  async wait(clock: Clock, held: { readonly size: number }, killNow: () => void): Promise<void> {
    const cancel = clock.after(closeGraceMs, killNow);
    while (held.size > 0)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    cancel();
  }
}
