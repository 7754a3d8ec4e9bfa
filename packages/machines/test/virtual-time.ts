/** Time that passes only when there is something to do. Equal times run in the order in which they were planned. */

/** Something that will happen. */
interface Appointment {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock and what is planned on it. */
export class VirtualTime {
  nowMs = 0;
  #planned: Appointment[] = [];
  #order = 0;

  /** Plans `run` in `delayMs`. @returns Cancels it. */
  after(delayMs: number, run: () => void): () => void {
    let isOn = true;
    const appointment = { atMs: this.nowMs + delayMs, order: this.#order++, run: () => isOn && run() };
    this.#planned.splice(this.#placeOf(appointment), 0, appointment);
    return () => {
      isOn = false;
    };
  }

  /** Runs until the condition holds. @returns False when `limitMs` passed first, or nothing is planned any more. */
  runUntil(condition: () => boolean, limitMs: number): boolean {
    const endMs = this.nowMs + limitMs;
    while (!condition()) {
      const next = this.#planned[0];
      if (!next || next.atMs > endMs) return false;
      this.#planned.shift();
      this.nowMs = next.atMs;
      next.run();
    }
    return true;
  }

  #placeOf(appointment: Appointment): number {
    let low = 0;
    let high = this.#planned.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#planned[middle]?.atMs ?? 0) <= appointment.atMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
