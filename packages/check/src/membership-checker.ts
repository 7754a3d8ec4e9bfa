/** Who is a member, and whom replicas obey (S3, S6, S7, S8, S14, S35, L3, L6). */

import type { StateSections } from "@muster/engine";
import type { AnyMessage, Identity } from "@muster/protocol";
import { ownDigest } from "./digest.ts";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import { joinedIn, lostIn } from "./member-changes.ts";
import type { Observed } from "./observed.ts";

/** A life may take that long to be admitted (reliability 3, L3). */
const joinMs = 30_000;

/** The longest pause of who flaps (reliability 4.2), and how far the clock that measures it may be off. */
const pauseMaxMs = 600_000;
const clockShare = 1.02;

/** What the controller notes of the orders that it gives a member; the plan that follows any event may change it. */
const orderFields: ReadonlySet<string> = new Set(["order", "owed", "retryAtMs", "unanswered", "memory"]);

/** A verdict takes as long as the tick of whoever judges and the way to the journal. */
const clockMarginMs = 1_000;

/** A time in which nobody could be heard, or only this node could not. */
export interface Outage {
  /** `null`: the broker was away. */
  readonly node: string | null;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The model of lives, meshes and obedience. */
export class MembershipChecker {
  readonly #judge: Judge;
  /** From when on no fault can explain a silence: a false eviction is judged only then. */
  readonly #strictFromMs: number;
  /** Lives that no process has: somebody registers with stolen credentials. */
  readonly #invented = new Set<string>();
  /** Process of each life. */
  readonly #lives = new Map<string, Observed>();
  readonly #present = new Map<Observed, string>();
  /** Of replicas of several processes: all of one life. They end as one. */
  readonly #beside = new Map<Observed, Set<Observed>>();
  readonly #groups = new Map<string, Set<Observed>>();
  /** When a life began, in the milliseconds of its world. */
  readonly #bornMs = new Map<string, number>();
  readonly #terms = new Map<string, number>();
  /** When a life was evicted or left, in the milliseconds of its world. */
  readonly #removedMs = new Map<string, number>();
  readonly #epochs = new Map<Observed, number>();
  readonly #meshes = new Map<number, string>();
  readonly #ranks = new Map<string, Observed>();
  readonly #bases = new Map<Observed, string>();
  readonly #ops = new Map<string, string>();

  /** When the broker, or a node, was away, in ms of the world. */
  readonly #outages: readonly Outage[];

  constructor(judge: Judge, strictFromMs: number, outages: readonly Outage[] = []) {
    this.#judge = judge;
    this.#outages = outages;
    this.#strictFromMs = strictFromMs;
  }

  /** Somebody speaks as a life that no process has. */
  invented(incarnation: string): void {
    if (!this.#lives.has(incarnation)) this.#invented.add(incarnation);
  }

  /** One of several processes of a replica begins, in this life of it. */
  bore(process: Observed, { replica, life }: { readonly replica: string; readonly life: number }): void {
    const key = `${replica}/${life}`;
    const group = this.#groups.get(key) ?? new Set();
    this.#groups.set(key, group.add(process));
    this.#beside.set(process, group);
  }

  /** A life begins inside a process. */
  identified({ incarnation }: Identity, process: Observed, nowMs = 0): void {
    this.#lives.set(incarnation, process);
    this.#present.set(process, incarnation);
    this.#bornMs.set(incarnation, nowMs);
  }

  /**
   * Once everybody must have come back: who lives is a member, unless it has only just begun, or has to wait because it flapped.
   *
   * @param mayWait - False when nobody may have to wait any more.
   * @returns In how long the last of those who wait must be a member, too; 0 when nobody waits.
   */
  checkAdmitted(state: Decision["after"], nowMs: number, mayWait = true): number {
    const { members, ending, stopped } = state;
    let dueMs = 0;
    if (ending || stopped) return dueMs;
    for (const [process, incarnation] of this.#present) {
      const isReplica = process.role !== "controller" && process.role !== "operator";
      const ageMs = nowMs - (this.#bornMs.get(incarnation) ?? 0);
      if (!isReplica || process.isDead || ageMs < joinMs) continue;
      const removedMs = this.#removedMs.get(incarnation);
      if (mayWait && removedMs !== undefined && nowMs - removedMs < joinMs) {
        dueMs = Math.max(dueMs, joinMs); // it ends what it has under way before it comes back
        continue;
      }
      const isMember = members[process.node]?.incarnation === incarnation;
      const pauseMs = isMember || !mayWait ? 0 : pauseOf(state, { id: process.node, incarnation });
      if (pauseMs > 0) dueMs = Math.max(dueMs, pauseMs + joinMs);
      this.#judge.require(
        isMember || pauseMs > 0,
        "L3",
        () => `${process.name} lives as ${incarnation} for ${Math.round(ageMs)} ms and is not a member`,
      );
    }
    return dueMs;
  }

  /** Somebody took a message in and did not refuse it. */
  accepted(message: AnyMessage & { readonly to?: string | undefined }, subject: string, by: Observed): void {
    this.#checkIdentity(message, subject, by);
    if (message.role !== "controller" || by.role === "controller") return;
    const incarnation = this.#present.get(by) ?? "";
    const highest = this.#terms.get(incarnation) ?? 0;
    this.#judge.require(
      message.term >= highest,
      "S3",
      () => `${by.name} obeys ${message.kind} of term ${message.term} after term ${highest}`,
    );
    this.#terms.set(incarnation, Math.max(highest, message.term));
    this.#judge.require(
      message.to === undefined || message.to === incarnation,
      "S8",
      () => `${by.name} obeys ${message.kind} for incarnation ${message.to}, it is ${incarnation}`,
    );
  }

  /** A decision was journaled. */
  decided({ event, before, after, effects }: Decision, nowMs = 0): void {
    for (const { id, incarnation } of joinedIn(before, after)) {
      const isKnown = this.#lives.has(incarnation) || this.#invented.has(incarnation);
      const isNew = isKnown && !this.#removedMs.has(incarnation);
      this.#judge.require(isNew, "S8", () => `${id} comes back as ${incarnation}, which was evicted`);
    }
    for (const { incarnation } of lostIn(before, after)) this.#removedMs.set(incarnation, nowMs);
    if ("incarnation" in event && "from" in event) this.#checkSpeaker(event, before, after);
    for (const effect of effects)
      if (effect.type === "command" && effect.kind === "mesh.build") {
        // An order that is said again is that of the mesh before: in the same breath, somebody of it may be evicted.
        const isRepeated = effect.body.epoch === before.mesh.epoch;
        this.#checkMesh(effect.body.members, isRepeated ? before : after);
      }
    if (nowMs >= this.#strictFromMs && before.members !== after.members)
      this.#checkEvictions(event.type, before, after);
    if (event.type === "verdict.dead" && event.kind === "silence") this.#checkSilence(event, nowMs);
  }

  /** A rank joins a mesh. */
  joined(
    process: Observed,
    at: { readonly epoch: number; readonly rank: number; readonly members: readonly string[] },
  ): void {
    const { epoch, rank, members } = at;
    const last = this.#epochs.get(process) ?? 0;
    this.#judge.require(epoch > last, "S6", () => `${process.name} joins epoch ${epoch} after epoch ${last}`);
    this.#epochs.set(process, Math.max(epoch, last));
    const named = members.join();
    const known = this.#meshes.get(epoch) ?? named;
    this.#meshes.set(epoch, known);
    this.#judge.require(known === named, "S7", () => `epoch ${epoch} has members ${named}, had ${known}`);
    this.#judge.require(
      rank >= 0 && members[rank] === process.node,
      "S7",
      () => `${process.name} is rank ${rank} of ${named}`,
    );
    const owner = this.#ranks.get(`${epoch}/${rank}`) ?? process;
    this.#ranks.set(`${epoch}/${rank}`, owner);
    this.#judge.require(
      owner === process,
      "S8",
      () => `${process.name} and ${owner.name} are one rank of epoch ${epoch}`,
    );
  }

  /** A step begins on these live weights. */
  begun(process: Observed, live: StateSections): void {
    this.#bases.set(process, `${ownDigest(live.weights)} ${ownDigest(live.optimizer)}`);
  }

  /** A rank reduces: all ranks of an operation must have begun from the same bytes. */
  reducing(process: Observed, { epoch, op }: { readonly epoch: number; readonly op: number }): void {
    this.#judge.require(
      this.#epochs.get(process) === epoch,
      "S6",
      () => `${process.name} reduces in epoch ${epoch}, it has joined epoch ${this.#epochs.get(process)}`,
    );
    const base = this.#bases.get(process) ?? "nothing";
    const known = this.#ops.get(`${epoch}/${op}`) ?? base;
    this.#ops.set(`${epoch}/${op}`, known);
    this.#judge.require(
      known === base,
      "S14",
      () => `${process.name} reduces operation ${op} of epoch ${epoch} from other weights`,
    );
  }

  /** Who speaks is named by the subject, and it is he who the message says it is. */
  #checkIdentity(message: AnyMessage, subject: string, by: Observed): void {
    const [, , place, ...path] = subject.split(".");
    const named = place === "reports" ? path.join(".") : `controller.${path.slice(1).join(".")}`;
    const claimed = `${message.role}.${place === "reports" ? `${message.from}.` : ""}${message.kind}`;
    this.#judge.require(
      named === claimed,
      "S35",
      () => `${by.name} took in ${message.kind} of ${message.role} ${message.from} on ${subject}`,
    );
  }

  /** What another life of a member says changes nothing of the member. */
  #checkSpeaker(
    event: Extract<Decision["event"], { from: string }>,
    { members: before }: Decision["before"],
    { members: after }: Decision["after"],
  ): void {
    const member = before[event.from];
    if (!member || member.incarnation === event.incarnation || event.type === "replica.register") return;
    const now = after[event.from];
    const isSame =
      now !== undefined &&
      Object.entries(member).every(([key, value]) => orderFields.has(key) || now[key as keyof typeof member] === value);
    this.#judge.require(
      isSame,
      "S8",
      () => `${event.type} of ${event.incarnation} changed ${event.from}, which is ${member.incarnation}`,
    );
  }

  #checkMesh(
    members: readonly { readonly id: string; readonly incarnation: string }[],
    { members: table }: Decision["after"],
  ): void {
    const ids = members.map(({ id }) => id);
    this.#judge.require(new Set(ids).size === ids.length, "S8", () => `a mesh names a member twice: ${ids.join()}`);
    for (const { id, incarnation } of members)
      this.#judge.require(
        table[id]?.incarnation === incarnation,
        "S8",
        () => `a mesh has ${id} as ${incarnation}, the member is ${table[id]?.incarnation}`,
      );
  }

  /** A silence proves nothing when the broker was away in it, unless the silent one was hit itself. */
  #checkSilence(
    { id, incarnation, silentMs }: { readonly id: string; readonly incarnation: string; readonly silentMs: number },
    nowMs: number,
  ): void {
    const process = this.#lives.get(incarnation);
    const sinceMs = nowMs - silentMs / clockShare;
    const isIn = ({ fromMs, toMs }: Outage): boolean => fromMs < nowMs && toMs > sinceMs + clockMarginMs;
    const outage = this.#outages.find((one) => one.node === null && isIn(one));
    const isHit = process?.isDead !== false || this.#outages.some((one) => one.node === id && isIn(one));
    this.#judge.require(
      outage === undefined || isHit,
      "L6",
      () => `${id} is evicted for ${Math.round(silentMs)} ms of silence, the broker was away until ${outage?.toMs} ms`,
    );
  }

  #checkEvictions(cause: string, before: Decision["before"], after: Decision["after"]): void {
    if (cause === "replica.left") return;
    for (const { id, incarnation } of lostIn(before, after)) {
      const process = this.#lives.get(incarnation);
      const isOver = !process || process.isDead || process.isStuck || this.#present.get(process) !== incarnation;
      const isGone = isOver || [...(this.#beside.get(process) ?? [])].some(({ isDead, isStuck }) => isDead || isStuck);
      this.#judge.require(isGone, "L6", () => `${id} is evicted on ${cause}, it is alive`);
    }
  }
}

/**
 * How long a life still has to wait for its admission; 0 when nothing keeps it from being a member. A pause is never longer than what
 * the times that the controller remembers lead to, whatever end it has written down. Pure.
 */
export function pauseOf(
  { waiting, evictions, nowMs, plan }: Pick<Decision["after"], "waiting" | "evictions" | "nowMs" | "plan">,
  { id, incarnation }: { readonly id: string; readonly incarnation: string },
): number {
  const times = evictions[id]?.times ?? [];
  const lastMs = times.at(-1);
  if (waiting[id]?.incarnation !== incarnation || lastMs === undefined) return 0;
  const longestMs = Math.min(pauseMaxMs, plan.health.readmitAfterMs * 2 ** times.length);
  return Math.max(0, (lastMs + longestMs - nowMs) * clockShare);
}
