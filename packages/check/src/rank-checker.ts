/** Replicas of several processes: all ranks have a place or none has, and no two lives of one work at a time (F9). */
import { type ControllerState, processesOf, ranksOf } from "@muster/machines/controller";
import type { Placed } from "./device-checker.ts";
import type { Judge } from "./judge.ts";

/** A process of a replica of several. */
export interface Ranked {
  readonly replica: string;
  readonly life: number;
  /** The node that started it. */
  readonly node: string;
}

interface Living extends Ranked {
  readonly process: Placed;
}

/** The model of replicas of several processes. */
export class RankChecker {
  readonly #judge: Judge;
  #living: readonly Living[] = [];

  constructor(judge: Judge) {
    this.#judge = judge;
  }

  /** A rank began: nobody of another life is left, but on nodes of which the job has heard that they are gone. */
  began(process: Placed, own: Ranked, { fleet }: ControllerState): void {
    this.#living = this.#living.filter((other) => !other.process.isDead);
    const other = this.#living.find(
      ({ replica, life, node }) => replica === own.replica && life !== own.life && fleet.nodes[node] !== undefined,
    );
    this.#judge.require(
      other === undefined,
      "F9",
      () => `${process.name} begins in life ${own.life}, and ${other?.process.name} of life ${other?.life} still works`,
    );
    this.#living = [...this.#living, { ...own, process }];
  }

  /** A decision was journaled: a replica has a place for all of its ranks, or for none. */
  decided(before: ControllerState, after: ControllerState): void {
    if (!after.plan.processes || before.fleet === after.fleet) return;
    for (const [id, replica] of Object.entries(after.fleet.replicas)) {
      const [placed, size] = [ranksOf(replica).length, processesOf(after, replica.role)];
      if (replica.health === "RETIRED") continue;
      this.#judge.require(
        placed === 0 || placed === size,
        "F9",
        () => `${id} has places for ${placed} of ${size} ranks`,
      );
      const rank = ranksOf(replica).find(({ node }) => after.fleet.nodes[node] === undefined);
      this.#judge.require(rank === undefined, "F9", () => `${id} has a rank on ${rank?.node}, which is gone`);
    }
  }
}
