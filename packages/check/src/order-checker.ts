/** Bounds and pointers of the controller: leases, attempts, the newest checkpoint (S20, S27, S31). */
import type { ControllerState } from "@muster/machines/controller";
import { type AnyMessage, groupsAt, type JobConfig, spansOf, stepsAfter } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import type { Observed } from "./observed.ts";

/** Incarnations that a controller may remember after their end. */
const goneMax = 256;

/** Chunks of which nobody knows anything when their holder begins another one: with more the guilty one could not be told. */
const untoldMax = 1;

/** Attempts that are lost until a search begins, and one at which two killers stand in for each other. */
const trainerEndsMax = 4;

/** Ends of trainers over a group alone, the last ones of a search. */
const proofs = 2;

/** Losses that count as one failure where something else may have caused them. */
const lossesPerFailure = 4;

/** Held-out prompts: which ones does not matter here. */
const evalKey = "eval";

/** Looks at the tables after each decision. */
export class OrderChecker {
  readonly #judge: Judge;
  readonly #limits: JobConfig["limits"];
  readonly #steps: number;
  readonly #groups: number;
  #changes: ControllerState["changes"];
  readonly #attemptsMax: number;
  /** How often somebody ended over this group. */
  readonly #ends = new Map<string, number>();
  /** What each process began and the broker has heard nothing of: by chunk the groups. */
  readonly #untold = new Map<Observed, readonly ReadonlySet<string>[]>();

  /** How many trainers ended over this group. */
  readonly #trainers = new Map<string, number>();
  /** Nothing goes wrong but by the prompts themselves. */
  readonly #isPeace: boolean;
  /** Groups that were given up for their gradient, and steps that were skipped. */
  readonly #excused = new Set<string>();
  /** Groups over which somebody ended or hung. */
  readonly #guilty = new Set<string>();

  constructor(judge: Judge, { limits, steps, failure, batch }: JobConfig, isPeace = false) {
    this.#judge = judge;
    this.#isPeace = isPeace;
    this.#attemptsMax = failure.engineCrash.attempts;
    this.#limits = limits;
    this.#steps = steps;
    this.#groups = batch.groupsPerStep;
  }

  /** A decision was journaled. */
  decided(decision: Decision): void {
    const { before, after } = decision;
    this.#changes = after.changes;
    if (before.groups !== after.groups) this.#checkKillers(decision);
    if (this.#isPeace && before.groups !== after.groups) this.#checkGivenUp(decision);
    if (before.checkpoints.saved !== after.checkpoints.saved) this.#checkPointer(before, after);
    // What is run again after a rollback has its attempts again.
    if (before.weights && !after.weights) this.#ends.clear();
    if (before.leases === after.leases) return;
    this.#checkBounds(after);
  }

  /** The newest checkpoint never becomes an older one, nor none, unless it is damaged: then it is the next one. */
  #checkPointer(
    { checkpoints: { saved: was }, fallback }: ControllerState,
    { checkpoints: { saved: now }, fallback: { damaged } }: ControllerState,
  ): void {
    const isForward = was === null || (now !== null && now.step >= was.step);
    // Copies of the same name may be the same folder.
    const next = fallback.older.find((copy) => copy === now || copy.path !== was?.path) ?? null;
    const isNext = damaged !== fallback.damaged && damaged.at(-1)?.path === was?.path && now === next;
    this.#judge.require(
      isForward || isNext,
      "S27",
      () => `the newest checkpoint is of step ${now?.step}, was of step ${was?.step}`,
    );
  }

  /**
   * A prompt that ends whoever draws from it is given up after its attempts. The engine itself says which one it was. What looks like a kill from
   * outside may take four times as many.
   */
  killedBy(request: {
    readonly requestId: string;
    readonly promptIds: Int32Array;
    readonly version: number;
    readonly isCrash: boolean;
  }): void {
    const { requestId, promptIds, version, isCrash } = request;
    this.#guilty.add(groupOf(requestId) ?? evalKey);
    const key = groupOf(requestId) ?? `eval ${version}.${promptIds.join(" ")}`;
    const ends = (this.#ends.get(key) ?? 0) + 1;
    this.#ends.set(key, ends);
    const isSure = this.#isPeace && isCrash;
    const most = isSure ? this.#attemptsMax : lossesPerFailure * (this.#attemptsMax - 1) + 1;
    this.#judge.require(ends <= most, "S20", () => `${key} has ended ${ends} processes, ${most} are enough`);
  }

  /** The same for a prompt that hangs its holders; beside other faults a hang may be taken for one of them, so it is counted in peace. */
  hungBy(requestId: string): void {
    const key = groupOf(requestId) ?? evalKey;
    this.#guilty.add(key);
    const hangs = (this.#ends.get(key) ?? 0) + 1;
    this.#ends.set(key, hangs);
    const isAllowed = !this.#isPeace || hangs <= this.#attemptsMax;
    this.#judge.require(isAllowed, "S20", () => `${key} has hung ${hangs} processes`);
  }

  /**
   * A group ends who trains on it. As many ends as find and prove it are enough; beside other faults a search may fail, so they are counted in peace.
   * What looks like a kill from outside may take more to prove, as {@link killedBy} says.
   */
  endedBy(group: string, { isCrash }: { readonly isCrash: boolean }): void {
    const ends = (this.#trainers.get(group) ?? 0) + 1;
    this.#trainers.set(group, ends);
    // The first one over it alone is the last halving, too.
    const proven = (isCrash ? proofs : lossesPerFailure * (proofs - 1) + 1) - 1;
    const enough =
      trainerEndsMax +
      proven +
      Math.ceil(Math.log2(groupsAt(spansOf(this.#groups, this.#changes), Number(group.split(".")[0]))));
    const isAllowed = !this.#isPeace || ends <= enough;
    this.#judge.require(isAllowed, "S20", () => `${group} has ended ${ends} trainers, ${enough} are enough to find it`);
  }

  /** A group whose result was there is given up only when it ended those who trained on it. */
  #checkKillers({ before, effects }: Decision): void {
    for (const effect of effects) {
      if (effect.type !== "announce" || effect.kind !== "groups.quarantined") continue;
      const { item } = effect.body;
      const [step = "", index = ""] = item.split(".");
      if (!before.groups[step]?.receipts[index]) continue;
      this.#guilty.add(item);
      const isGuilty = (this.#trainers.get(item) ?? 0) > 0;
      this.#judge.require(isGuilty, "S20", () => `${item} is given up for its trainers, and has ended none`);
    }
  }

  /** Where nothing else goes wrong, nobody is given up but who ended or hung its holders, or whose gradient is not finite. */
  #checkGivenUp({ before, after, effects }: Decision): void {
    for (const effect of effects) {
      if (effect.type !== "announce") continue;
      if (effect.kind === "groups.quarantined" && effect.body.failure === "non_finite")
        this.#excused.add(effect.body.item);
      // Of a step that was skipped all groups are given up; after a step back they are there again.
      if (effect.kind === "step.skipped") this.#excused.add(`${effect.body.step}`);
    }
    for (const [step, { quarantined }] of Object.entries(after.groups)) {
      const known = before.groups[Number(step)]?.quarantined ?? [];
      const items = quarantined.filter((index) => !known.includes(index)).map((index) => `${step}.${index}`);
      for (const item of items)
        this.#judge.require(
          this.#excused.has(item) || this.#excused.has(step) || this.#guilty.has(item),
          "S20",
          () => `${item} is given up, and has neither ended nor hung anybody`,
        );
    }
  }

  /** An engine begins on the requests of one chunk. */
  begins(by: Observed, requestIds: readonly string[]): void {
    const groups = new Set(requestIds.map((id) => groupOf(id) ?? evalKey));
    const untold = this.#untold.get(by) ?? [];
    this.#judge.require(
      untold.length <= untoldMax,
      "S20",
      () =>
        `${by.name} begins ${[...groups].join()} and has told nothing of ${untold.map((each) => [...each].join()).join(" and ")}`,
    );
    this.#untold.set(by, [...untold, groups]);
  }

  /** The broker stored what became of work. */
  told(by: Observed, message: AnyMessage): void {
    const told = toldBy(message);
    const untold = this.#untold.get(by);
    if (!told || !untold) return;
    const left = untold.map((groups) => new Set([...groups].filter((group) => !told.includes(group))));
    this.#untold.set(
      by,
      left.filter(({ size }) => size > 0),
    );
  }

  /** Another life begins in a process: it is not asked about what the last one began. */
  identified(process: Observed): void {
    this.#untold.delete(process);
  }

  #checkBounds({ leases, gone, groups, changes }: ControllerState): void {
    const { leasesPerRollout, leaseGroupsMax } = this.#limits;
    const held = new Map<string, number>();
    for (const { holder, items } of Object.values(leases)) {
      // A whole share of a step is one lease, and counts as those that it stands for.
      const count = items[0]?.purpose === "train" ? Math.ceil(items.length / leaseGroupsMax) : 1;
      held.set(holder, (held.get(holder) ?? 0) + count);
    }
    for (const [holder, count] of held)
      this.#judge.require(count <= leasesPerRollout, "S31", () => `${holder} has ${count} leases, or as much as that`);
    const open = Object.keys(groups).length;
    this.#judge.require(gone.length <= goneMax, "S31", () => `${gone.length} incarnations are remembered`);
    this.#judge.require(open <= stepsAfter(this.#steps, changes), "S31", () => `groups of ${open} steps are open`);
  }
}

/** The group that a request draws from, or `null` when it is a held-out prompt. */
function groupOf(requestId: string): string | null {
  return /^(\d+\.\d+)\.\d+$/.exec(requestId)?.[1] ?? null;
}

/** Of which work a message says what became of it, or `null`. */
function toldBy({ kind, body }: AnyMessage): readonly string[] | null {
  if (kind === "evals.completed") return [evalKey];
  if (kind === "groups.completed") return body.receipts.map(({ step, index }) => `${step}.${index}`);
  if (kind !== "groups.returned") return null;
  return body.items.map((item) => (item.purpose === "eval" ? evalKey : `${item.step}.${item.index}`));
}
