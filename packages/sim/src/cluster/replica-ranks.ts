/** Trainers of several processes: their supervisor starts all of one, and ends the others when one of them ends. */
import { processNameOf } from "@muster/protocol";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";

/** What it takes a supervisor to end the others. The engine itself may notice sooner. */
const endMs = 300;

/** What a supervisor does. */
export interface RankSupervision {
  readonly world: World;
  /** Processes of each trainer. */
  readonly size: number;
  spawn(id: string, beside: SimProcess): SimProcess;
  end(process: SimProcess): void;
  together(processes: readonly SimProcess[]): void;
}

/** The processes of trainers that are not rank 0. */
export class ReplicaRanks {
  readonly #given: RankSupervision;
  /** By the process of rank 0. */
  readonly #others = new Map<SimProcess, readonly SimProcess[]>();
  readonly #last = new Map<string, SimProcess>();

  constructor(given: RankSupervision) {
    this.#given = given;
  }

  /** A life of a replica begins with its rank 0: so do the others. */
  start(first: SimProcess): void {
    const { world, size, spawn, end, together } = this.#given;
    if (first.role !== "policy" || size === 1) return;
    const others = Array.from({ length: size - 1 }, (_, i) => spawn(processNameOf(first.node, i + 1), first));
    this.#others.set(first, others);
    for (const other of others) this.#last.set(other.node, other);
    const all = [first, ...others];
    together(all);
    const endAll = (): void => {
      for (const each of all) if (!each.isDead) end(each);
    };
    for (const each of all) each.onDeath(() => world.after(endMs, endAll));
  }

  /** Ranks 1, 2 … of the replica whose rank 0 this is. */
  othersOf(first: SimProcess): readonly SimProcess[] {
    return this.#others.get(first) ?? [];
  }

  /** The process of a rank, of the last life of its replica. */
  processOf(id: string): SimProcess | null {
    return this.#last.get(id) ?? null;
  }

  /** Those that run or stand still. */
  living(): readonly SimProcess[] {
    return [...this.#last.values()].filter(({ isDead }) => !isDead);
  }
}
