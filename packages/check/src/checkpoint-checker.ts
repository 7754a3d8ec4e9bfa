/** Checkpoints: what is said to be durable is whole, holds the committed bytes, and stays (S25, S26), also when the power fails (S29). */
import { messageOf } from "@muster/base";
import { type CheckpointFs, loadCheckpoint } from "@muster/checkpoint";
import type { StateSections } from "@muster/engine";
import { type ControllerState, membersOf } from "@muster/machines";
import type { Body } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

/** Reads checkpoints back as soon as they are reported. */
export class CheckpointChecker {
  readonly #judge: Judge;
  readonly #fs: CheckpointFs;
  readonly #isCommitted: (state: StateSections) => boolean;
  #newest: { readonly path: string; readonly order: number } | null = null;
  #best: string | null = null;
  readonly #damaged = new Set<string>();

  constructor(judge: Judge, fs: CheckpointFs, isCommitted: (state: StateSections) => boolean) {
    this.#judge = judge;
    this.#fs = fs;
    this.#isCommitted = isCommitted;
  }

  /** A checkpoint actor says that a checkpoint is durable. */
  async saved({ path, lineage, step }: Body<"checkpoint.saved">): Promise<void> {
    const order = lineage * 1e6 + step;
    // An older one may have been replaced while its writer stood still.
    if (order < (this.#newest?.order ?? -1) || this.#damaged.has(path)) return;
    this.#newest = { path, order };
    await this.#read(path, { invariant: "S25", why: "was reported durable" });
  }

  /** A fault has damaged what lies in this folder. */
  damaged(path: string): void {
    this.#damaged.add(path);
    if (this.#newest?.path === path) this.#newest = null;
  }

  /** A decision was journaled: what is called damaged is so, and nothing goes before another host has something newer. */
  decided({ before, after }: Decision): void {
    this.#best = after.heldOut?.checkpoint?.path ?? null;
    if (before.checkpoints.saved !== after.checkpoints.saved) this.#checkCopies(before, after);
    if (before.fallback.damaged === after.fallback.damaged) return;
    const { path, reason } = after.fallback.damaged.at(-1) ?? { path: "nothing", reason: "" };
    this.#judge.require(this.#damaged.has(path), "S25", () => `${path} is given up as damaged, and is not: ${reason}`);
  }

  /** While checkpoint actors are on several hosts, what is given up has something newer on two of them. */
  #checkCopies(before: ControllerState, after: ControllerState): void {
    const savers = membersOf(after, "checkpoint");
    if (hostsOf(savers) < 2 || before.fallback.damaged !== after.fallback.damaged) return;
    const kept = keptIn(after);
    const given = keptIn(before).filter(
      ({ path, host }) => !kept.some((one) => one.path === path && one.host === host),
    );
    for (const { path, step } of given)
      this.#judge.require(
        kept.some((one) => one.step > step && hostsOf(kept.filter((copy) => copy.step === one.step)) > 1),
        "S26",
        () => `${path} may go, and nothing newer is on two hosts`,
      );
  }

  /** True when the job has nothing left that it could go back to, because faults have damaged all of it. */
  isAllDamaged({ checkpoints, fallback }: ControllerState): boolean {
    return checkpoints.saved === null && fallback.damaged.some(({ path }) => this.#damaged.has(path));
  }

  /** The newest checkpoint must still be there at the end. */
  async verifyAtEnd(): Promise<void> {
    if (this.#newest) await this.#read(this.#newest.path, { invariant: "S26", why: "is the newest at the end" });
    if (this.#best && !this.#damaged.has(this.#best))
      await this.#read(this.#best, { invariant: "S26", why: "is the best at held-out prompts" });
  }

  /** The newest checkpoint must have survived a loss of power. */
  async verifyAfterPowerLoss(): Promise<void> {
    if (this.#newest)
      await this.#read(this.#newest.path, { invariant: "S29", why: "is the newest after a loss of power" });
  }

  async #read(path: string, { invariant, why }: { readonly invariant: string; readonly why: string }): Promise<void> {
    try {
      const { sections } = await loadCheckpoint(path, { fs: this.#fs });
      const of = (name: string): Uint8Array => sections.find((part) => part.name === name)?.bytes ?? new Uint8Array();
      this.#judge.require(
        this.#isCommitted({ weights: of("weights"), optimizer: of("optimizer") }),
        invariant,
        () => `${path} ${why} and holds bytes that nobody committed`,
      );
    } catch (error) {
      this.#judge.require(false, invariant, () => `${path} ${why} and can not be read: ${messageOf(error)}`);
    }
  }
}

function keptIn({ checkpoints, fallback }: ControllerState): ControllerState["fallback"]["older"] {
  return checkpoints.saved ? [checkpoints.saved, ...fallback.older] : [];
}

function hostsOf(those: readonly { readonly host: string }[]): number {
  return new Set(those.map(({ host }) => host)).size;
}
