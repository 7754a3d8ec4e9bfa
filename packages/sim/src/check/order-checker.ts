/** Bounds and pointers of the controller: leases, attempts, the newest checkpoint (S20, S27, S31). */
import type { ControllerState } from "@muster/machines";
import type { JobConfig } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

/** Incarnations that a controller may remember after their end. */
const goneMax = 256;

/** Looks at the tables after each decision. */
export class OrderChecker {
  readonly #judge: Judge;
  readonly #limits: JobConfig["limits"];
  readonly #steps: number;
  readonly #attemptsMax: number;
  /** How often somebody ended over this group. */
  readonly #ends = new Map<string, number>();

  constructor(judge: Judge, { limits, steps, failure }: JobConfig) {
    this.#judge = judge;
    this.#attemptsMax = failure.engineCrash.attempts;
    this.#limits = limits;
    this.#steps = steps;
  }

  /** A decision was journaled. */
  decided({ before, after }: Decision): void {
    if (before.checkpoints.saved !== after.checkpoints.saved) this.#checkPointer(before, after);
    // What is run again after a rollback has its attempts again.
    if (before.weights && !after.weights) this.#ends.clear();
    if (before.leases === after.leases) return;
    this.#checkBounds(after);
  }

  /** The newest checkpoint never becomes an older one, nor none. */
  #checkPointer(
    { checkpoints: { saved: was } }: ControllerState,
    { checkpoints: { saved: now } }: ControllerState,
  ): void {
    const isForward = was === null || (now !== null && now.step >= was.step);
    this.#judge.require(
      isForward,
      "S27",
      () => `the newest checkpoint is of step ${now?.step}, was of step ${was?.step}`,
    );
  }

  /** A prompt that ends whoever draws from it is given up after its attempts. The engine itself says which one it was. */
  killedBy(request: { readonly requestId: string; readonly promptIds: Int32Array; readonly version: number }): void {
    const { requestId, promptIds, version } = request;
    const group = /^(\d+\.\d+)\.\d+$/.exec(requestId)?.[1];
    const key = group ?? `eval ${version}.${promptIds.join(" ")}`;
    const ends = (this.#ends.get(key) ?? 0) + 1;
    this.#ends.set(key, ends);
    this.#judge.require(ends <= this.#attemptsMax, "S20", () => `${key} has ended ${ends} processes`);
  }

  #checkBounds({ leases, gone, groups }: ControllerState): void {
    const { leasesPerRollout, leaseGroupsMax } = this.#limits;
    const held = new Map<string, number>();
    for (const { holder, items } of Object.values(leases)) {
      held.set(holder, (held.get(holder) ?? 0) + 1);
      this.#judge.require(
        items.length <= leaseGroupsMax,
        "S31",
        () => `${holder} has ${items.length} groups on one lease`,
      );
    }
    for (const [holder, count] of held)
      this.#judge.require(count <= leasesPerRollout, "S31", () => `${holder} has ${count} leases`);
    const open = Object.keys(groups).length;
    this.#judge.require(gone.length <= goneMax, "S31", () => `${gone.length} incarnations are remembered`);
    this.#judge.require(open <= this.#steps, "S31", () => `groups of ${open} steps are open`);
  }
}
