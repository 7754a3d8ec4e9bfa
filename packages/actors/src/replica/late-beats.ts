/** Heartbeats that begin with admission: only then is their interval known, and only members are watched. */
import type { Beats } from "../environment.ts";

/** Passes on to the heartbeats once they have begun; until then there is nobody to tell. */
export class LateBeats implements Beats {
  #beats: Beats | null = null;
  #term = 0;

  /** Starts them, unless they run already. */
  begin(start: () => Beats): void {
    if (this.#beats) return;
    this.#beats = start();
    this.#beats.setTerm(this.#term);
  }

  progress(amount?: number): void {
    this.#beats?.progress(amount);
  }

  setVersion(version: number | null): void {
    this.#beats?.setVersion(version);
  }

  setPhase(phase: string): void {
    this.#beats?.setPhase(phase);
  }

  setTerm(term: number): void {
    this.#term = term;
    this.#beats?.setTerm(term);
  }

  setEpoch(epoch: number): void {
    this.#beats?.setEpoch(epoch);
  }

  setEngine(failures: { readonly liveness: number; readonly generation: number }): void {
    this.#beats?.setEngine(failures);
  }

  async stop(): Promise<void> {
    await this.#beats?.stop();
  }
}
