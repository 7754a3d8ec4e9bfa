/** Processes in an endless loop: they hear of nothing, so once they are evicted, or the job is over, their supervisor ends them. */
import type { ControllerState } from "@muster/machines/controller";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";

const lookEveryMs = 1_000;

/** What a supervisor sees and does. */
export interface Supervision {
  readonly world: World;
  jobState(): ControllerState;
  isJobOver(): boolean;
  end(process: SimProcess): void;
}

/** Watches who is stuck. */
export class StuckProcesses {
  readonly #given: Supervision;
  /** The last life that began in a process. */
  readonly #lives = new WeakMap<SimProcess, string>();

  constructor(given: Supervision) {
    this.#given = given;
  }

  /** A life begins in a process. */
  identified(process: SimProcess, incarnation: string): void {
    this.#lives.set(process, incarnation);
  }

  /** Ends a stuck process once its life is no member any more, or there is no job. */
  endWhenOut(process: SimProcess): void {
    if (process.isDead) return;
    const { world, jobState, isJobOver, end } = this.#given;
    if (isJobOver() || jobState().members[process.node]?.incarnation !== this.#lives.get(process)) end(process);
    else world.after(lookEveryMs, () => this.endWhenOut(process));
  }
}
