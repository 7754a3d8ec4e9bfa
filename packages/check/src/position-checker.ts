/**
 * Which prompts a job draws: each place of the job's input is given to one group, places follow each other without a gap from step to step, and a step that is
 * run again after the job went back has as many groups as before (S15, S16). The sizes are counted from the groups that a step ended with, not taken from what
 * operators changed.
 */
import type { ControllerState } from "@muster/machines/controller";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

/** A step that ended: its first place, and its groups. */
interface Ended {
  readonly first: number;
  readonly size: number;
}

/** Looks at leases and at the ends of steps. */
export class PositionChecker {
  readonly #judge: Judge;
  readonly #groupsPerStep: number;
  /** Places that leases named, by step and index. */
  readonly #places = new Map<number, Map<number, number>>();
  readonly #ended = new Map<number, Ended>([[0, { first: 0, size: 0 }]]);

  constructor(judge: Judge, { groupsPerStep }: { readonly groupsPerStep: number }) {
    this.#judge = judge;
    this.#groupsPerStep = groupsPerStep;
  }

  /** A decision was journaled. */
  decided({ before, after, effects }: Decision): void {
    for (const effect of effects) {
      if (effect.type !== "command" || effect.kind !== "groups.lease") continue;
      for (const item of effect.body.items) if (item.purpose === "train") this.#leased(item);
    }
    for (let step = before.step.step; step < after.step.step; step++) this.#end(step, before);
  }

  #leased({
    step,
    index,
    position,
  }: {
    readonly step: number;
    readonly index: number;
    readonly position?: number | undefined;
  }): void {
    const place = position ?? (step - 1) * this.#groupsPerStep + index;
    const own = this.#places.get(step) ?? new Map<number, number>();
    this.#places.set(step, own);
    const known = own.get(index) ?? place;
    this.#judge.require(
      known === place,
      "S16",
      () => `group ${step}.${index} draws prompt ${place}, before it was prompt ${known}`,
    );
    own.set(index, place);
  }

  #end(step: number, { groups }: ControllerState): void {
    const own = groups[step];
    const base = this.#ended.get(step - 1);
    if (!own || !base) return;
    const size = Object.keys(own.receipts).length + own.quarantined.length;
    const first = base.first + base.size;
    const known = this.#ended.get(step);
    this.#judge.require(
      !known || known.size === size,
      "S16",
      () => `step ${step} ends with ${size} groups, before the job went back it had ${known?.size}`,
    );
    for (const [index, place] of this.#places.get(step) ?? [])
      this.#judge.require(
        place === first + index,
        "S15",
        () => `group ${step}.${index} draws prompt ${place}, the steps before it end with prompt ${first - 1}`,
      );
    this.#ended.set(step, { first, size });
  }
}
