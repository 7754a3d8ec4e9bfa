/**
 * Checkpoints that several actors write together (S25): a shard counts when one who was told to write it has said that it is durable, and by nothing else;
 * nobody is told to seal before all of them count, and no two at once.
 */
import { type ControllerState, membersOf } from "@muster/machines/controller";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

type ShardSet = NonNullable<ControllerState["checkpoints"]["set"]>;

/** Judges what a controller decides about shards. */
export class ShardChecker {
  readonly #judge: Judge;

  constructor(judge: Judge) {
    this.#judge = judge;
  }

  /** A decision was journaled. */
  decided({ event, before, after, effects }: Decision): void {
    const { set } = after.checkpoints;
    if (set && set !== before.checkpoints.set) this.#checkGrowth(event, before.checkpoints.set, set);
    for (const effect of effects) {
      if (effect.type !== "command" || effect.kind !== "checkpoint.save") continue;
      const { step, lineage, version, shards } = effect.body;
      if (shards?.write.length !== 0) continue;
      const isIt = set?.lineage === lineage && set.version === version && set.of === shards.of;
      const missing = numbersTo(shards.of).filter((index) => !isIt || !set.done.includes(index));
      this.#judge.require(
        missing.length === 0,
        "S25",
        () => `the order to seal step ${step} is given, and nobody has reported its shards ${missing.join(", ")}`,
      );
      this.#checkSealers(after, { step, lineage, version });
    }
  }

  #checkGrowth(event: Decision["event"], was: ShardSet | undefined, set: ShardSet): void {
    const isSame = was?.lineage === set.lineage && was.version === set.version && was.of === set.of;
    const grown = set.done.filter((index) => !isSame || !was.done.includes(index));
    const said = event.type === "shards.saved" && event.body.version === set.version ? event.body.shards.write : [];
    const unsaid = grown.filter((index) => !said.includes(index));
    this.#judge.require(
      unsaid.length === 0,
      "S25",
      () => `shards ${unsaid.join(", ")} of step ${set.step} count, and nobody has reported them durable`,
    );
  }

  #checkSealers(
    state: ControllerState,
    { step, lineage, version }: Pick<ShardSet, "step" | "lineage" | "version">,
  ): void {
    const sealers = membersOf(state, "checkpoint").filter(
      ({ order }) =>
        order?.kind === "checkpoint.save" &&
        order.lineage === lineage &&
        order.version === version &&
        order.write?.length === 0,
    );
    this.#judge.require(
      sealers.length <= 1,
      "S25",
      () => `step ${step} is to be sealed by ${sealers.map(({ id }) => id).join(" and ")} at once`,
    );
  }
}

function numbersTo(count: number): readonly number[] {
  return Array.from({ length: count }, (_, i) => i + 1);
}
