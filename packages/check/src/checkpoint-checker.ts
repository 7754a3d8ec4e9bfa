/**
 * Checkpoints: what is said to be durable is whole, holds the committed bytes, and stays (S25, S26), also when the power fails (S29). It counts only
 * when enough hosts have it, and what it covers of the groups stream is nothing that a later step needs (S28).
 */
import { messageOf } from "@muster/base";
import { type CheckpointFs, loadCheckpoint } from "@muster/checkpoint";
import type { StateSections } from "@muster/engine";
import { type ControllerState, membersOf } from "@muster/machines/controller";
import { type Body, firstSeqOf, type StreamPlace } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

/** The disk that the checkpoints are on. */
export interface CheckedDisk {
  /** As it is. */
  readonly fs: CheckpointFs;
  /** As it would be if all that is not synced were lost now; absent where nobody knows. */
  readonly durable?: () => CheckpointFs;
}

/** Reads checkpoints back as soon as they are reported. */
export class CheckpointChecker {
  readonly #judge: Judge;
  readonly #fs: CheckpointFs;
  readonly #durable: (() => CheckpointFs) | undefined;
  readonly #isCommitted: (state: StateSections) => boolean;
  #newest: { readonly path: string; readonly order: number } | null = null;
  #best: string | null = null;
  readonly #damaged = new Set<string>();
  /** By lineage and step: hosts that reported the checkpoint durable. */
  readonly #hosts = new Map<string, Set<string>>();
  /** Copies that orders named as ones that may go. */
  readonly #superseded = new Set<string>();

  constructor(judge: Judge, { fs, durable }: CheckedDisk, isCommitted: (state: StateSections) => boolean) {
    this.#judge = judge;
    this.#fs = fs;
    this.#durable = durable;
    this.#isCommitted = isCommitted;
  }

  /** A checkpoint actor says that a checkpoint is durable. */
  async saved({ path, lineage, step }: Body<"checkpoint.saved">): Promise<void> {
    const order = lineage * 1e6 + step;
    // An older one may have been replaced while its writer stood still.
    if (order < (this.#newest?.order ?? -1) || this.#damaged.has(path)) return;
    this.#newest = { path, order };
    // What is synced is looked at in the same moment: whoever reads the rest takes time.
    const durable = this.#durable?.();
    await this.#read(path, { invariant: "S25", why: "was reported durable" });
    if (durable) await this.#read(path, { invariant: "S29", why: "is reported durable before it is synced" }, durable);
  }

  /** A fault has damaged what lies in this folder. */
  damaged(path: string): void {
    this.#damaged.add(path);
    if (this.#newest?.path === path) this.#newest = null;
  }

  /** A decision was journaled: what is called damaged is so, and nothing goes before another host has something newer. */
  decided(decision: Decision): void {
    const { before, after } = decision;
    this.#checkSuperseded(decision);
    this.#checkQuorum(decision);
    this.#checkWatermark(decision);
    this.#best = after.heldOut?.checkpoint?.path ?? null;
    if (before.checkpoints.saved !== after.checkpoints.saved) this.#checkCopies(before, after);
    if (before.fallback.damaged === after.fallback.damaged) return;
    const { path, reason } = after.fallback.damaged.at(-1) ?? { path: "nothing", reason: "" };
    this.#judge.require(this.#damaged.has(path), "S25", () => `${path} is given up as damaged, and is not: ${reason}`);
  }

  /** What may go counts neither then nor later: an order names no checkpoint that the job would go back to. */
  #checkSuperseded({ after, effects }: Decision): void {
    for (const effect of effects)
      if (effect.type === "command" && effect.kind === "checkpoint.save")
        for (const { name, manifestDigest } of effect.body.superseded ?? [])
          this.#superseded.add(`${name} ${manifestDigest}`);
    for (const { path, manifestDigest } of this.#superseded.size > 0 ? keptIn(after) : [])
      this.#judge.require(
        !this.#superseded.has(`${path.slice(path.lastIndexOf("/") + 1)} ${manifestDigest}`),
        "S26",
        () => `${path} counts, and an order said that it may go`,
      );
  }

  /** A checkpoint becomes the newest only after as many hosts as the job asks for have reported it. */
  #checkQuorum({ event, before, after }: Decision): void {
    if (event.type !== "checkpoint.saved") return;
    const { lineage, step } = event.body;
    const key = `${lineage}.${step}`;
    const hosts = this.#hosts.get(key) ?? new Set();
    this.#hosts.set(key, hosts.add(before.members[event.from]?.host ?? ""));
    const { saved } = after.checkpoints;
    if (saved === null || saved === before.checkpoints.saved) return;
    const wanted = after.plan.checkpointQuorum ?? 1;
    this.#judge.require(
      saved.step === step && hosts.size >= wanted,
      "S26",
      () => `${saved.path} counts, and ${hosts.size} hosts have reported step ${step}, not ${wanted}`,
    );
  }

  /** What an order to save and a purge say of the groups stream: all that is gone lies below, and all that is still needed does not. */
  #checkWatermark({ before, after, effects }: Decision): void {
    for (const effect of effects) {
      if (effect.type === "command" && effect.kind === "checkpoint.save") {
        const { groupsWatermark, step } = effect.body;
        const needed = lowestNeeded(after, step);
        this.#judge.require(
          groupsWatermark <= needed && groupsWatermark >= before.purgedSeq,
          "S28",
          () =>
            `the order to save step ${step} says that ${groupsWatermark} is where the groups begin that are needed after it: that is ${needed}, and what is below ${before.purgedSeq} is gone`,
        );
      } else if (effect.type === "groups.purge") {
        const needed = lowestNeeded(after, after.checkpoints.saved?.step ?? 0);
        this.#judge.require(
          effect.beforeSeq <= needed,
          "S28",
          () => `groups before ${effect.beforeSeq} are purged, and ${needed} is needed after the newest checkpoint`,
        );
      }
    }
  }

  /** While checkpoint actors are on several hosts, what is given up has something newer on two of them. */
  #checkCopies(before: ControllerState, after: ControllerState): void {
    const savers = membersOf(after, "checkpoint");
    // Shards are in one folder that all hosts share: there is one copy, whoever has sealed it.
    if (after.plan.checkpointShards !== undefined) return;
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

  async #read(
    path: string,
    { invariant, why }: { readonly invariant: string; readonly why: string },
    fs = this.#fs,
  ): Promise<void> {
    try {
      const { sections } = await loadCheckpoint(path, { fs });
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

/** The first message of the groups stream that a job needs which goes on after a step. */
function lowestNeeded({ groups, history, leases }: ControllerState, step: number): number {
  const later = Object.entries(history).flatMap(([key, receipts]) => (Number(key) > step ? receipts : []));
  const open = Object.values(groups).flatMap(({ receipts, queue }) => [
    ...Object.values(receipts),
    ...queue.flatMap(({ partial }) => partial ?? []),
  ]);
  const items = Object.values(leases).flatMap((lease) => lease.items);
  const leased = items.flatMap((item) => (item.purpose === "train" ? (item.partial ?? []) : []));
  const places: readonly StreamPlace[] = [...later, ...open, ...leased];
  return places.reduce((lowest, place) => Math.min(lowest, firstSeqOf(place)), Number.POSITIVE_INFINITY);
}

function keptIn({ checkpoints, fallback }: ControllerState): ControllerState["fallback"]["older"] {
  return checkpoints.saved ? [checkpoints.saved, ...fallback.older] : [];
}

function hostsOf(those: readonly { readonly host: string }[]): number {
  return new Set(those.map(({ host }) => host)).size;
}
