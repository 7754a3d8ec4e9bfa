/**
 * The failure detector (reliability 4): five kinds of evidence, three verdicts. It has no clock and sends nothing: beats, notices, answers
 * and times come in, verdicts and probes come out, so the same inputs give the same verdicts. It is no part of the controller's
 * journaled state; its verdicts are inputs of the controller.
 */
import type { EvidenceKind } from "@muster/protocol";
import { Brake } from "./brake.ts";
import { BrokenLinks } from "./broken-links.ts";
import { Outages } from "./outages.ts";
import { PhaseTimes } from "./phase-times.ts";
import { type Moment, Sighting } from "./sighting.ts";
import type { DetectorTiming } from "./timing.ts";
import type { BeatReading, Look, Probe, Verdict, Watched } from "./verdict.ts";

const endedEarlyMax = 256;
/** A beat that is further behind than this is not late: the number before it was a lie, which must not silence the living. */
const lateBeatsMax = 16;

/** Since when the broker is away, and whether that is forgiven. */
interface Absence {
  readonly fromMs: number;
  readonly isForgiven: boolean;
}

/** Watches the members of one job on behalf of one controller. */
export class FailureDetector {
  readonly #timing: DetectorTiming;
  readonly #sightings = new Map<string, Sighting>();
  readonly #phases = new PhaseTimes();
  readonly #links = new BrokenLinks();
  readonly #brake = new Brake();
  /** Lives whose connection ended before they were watched: who dies as soon as it has joined. */
  readonly #endedEarly = new Set<string>();
  /** Of the watcher's own connection to the broker. */
  readonly #outages: Outages;
  /** Of the broker; `null` when it is there. */
  #absence: Absence | null = null;
  // no mutant: it tells the probes apart, whatever the first one is
  #nonces = 0;
  #isTold = false;

  constructor(timing: DetectorTiming) {
    this.#timing = timing;
    this.#outages = new Outages(timing.deadAfterMs.policy);
  }

  /** A heartbeat arrived. Late or repeated ones count for nothing, and so do those of another life than the one that is watched. */
  beat(beat: BeatReading, nowMs: number): void {
    const sighting = this.#sightings.get(beat.id);
    if (!sighting || sighting.incarnation !== beat.incarnation) return;
    const behind = sighting.seq - beat.seq;
    if (behind >= 0 && behind <= lateBeatsMax) return;
    sighting.beat(beat, nowMs, { timing: this.#timing, phases: this.#phases });
  }

  /** The broker tells of ended connections from now on. */
  hearsDisconnects(): void {
    this.#isTold = true;
  }

  /** The broker saw a connection of this life end. Evidence, not proof: a client that reconnects looks the same for a moment. */
  disconnected(id: string, incarnation: string, nowMs: number): void {
    const sighting = this.#of(id, incarnation);
    if (!sighting) this.#remember(incarnation);
    else sighting.disconnected(nowMs);
  }

  /** A survivor of a failed collective says who was missing. */
  blamed(reporter: string, missing: readonly string[], nowMs: number): void {
    for (const id of missing) {
      if (id === reporter) continue;
      this.#sightings.get(id)?.reporters.add(reporter);
      this.#links.add(reporter, id, nowMs);
    }
  }

  /** A probe was answered, by the thread of the heartbeats or by the main loop. */
  answered(
    answer: {
      readonly id: string;
      readonly incarnation: string;
      readonly nonce: number;
      readonly by: "thread" | "loop";
    },
    nowMs: number,
  ): void {
    const sighting = this.#of(answer.id, answer.incarnation);
    if (sighting?.asked?.nonce !== answer.nonce) return;
    sighting.heard(nowMs);
    sighting.loopSilent = answer.by === "loop" ? 0 : sighting.loopSilent + 1;
  }

  /**
   * This process itself was away for the last `ms`: that time counts for nobody's silence. Nobody is forgiven what came before, so that a
   * watcher that is late again and again sees later, and not never.
   */
  stoodStill(ms: number, nowMs: number): void {
    for (const sighting of this.#sightings.values()) sighting.skip(ms, nowMs);
  }

  /** The watcher's connection to the broker ended. Harmless to repeat. */
  lost(nowMs: number): void {
    this.#absenceFrom(nowMs);
  }

  /**
   * The broker is back: silence until now proves nothing, and everybody gets every wait in full. Where it was away too often lately, its
   * absence counts for nobody's silence, and no more is forgiven: or who died meanwhile would never be missed.
   */
  blinded(nowMs: number): void {
    const { fromMs, isForgiven } = this.#absenceFrom(nowMs);
    this.#absence = null;
    if (!isForgiven) {
      this.stoodStill(nowMs - fromMs, nowMs);
      return;
    }
    for (const sighting of this.#sightings.values()) sighting.forgive(nowMs);
    this.#links.clear();
    this.#brake.pull(nowMs, this.#timing.deadAfterMs.policy);
  }

  /** True while nobody is evicted because the view is or was bad. */
  isBraked(nowMs: number): boolean {
    return this.#brake.isOn(nowMs);
  }

  /** Highest level of suspicion of any member that was heard; 0 without one. */
  highestPhi(nowMs: number, factor: number): number {
    const moment = { nowMs, factor, timing: this.#timing, isTold: this.#isTold };
    let highest = 0;
    for (const sighting of this.#sightings.values())
      if (sighting.seq >= 0) highest = Math.max(highest, sighting.phi(moment));
    return highest;
  }

  /**
   * Looks at every member.
   *
   * @param members - Who is to be watched, in order of arrival; others are forgotten.
   * @param factor - Local health + 1: every wait is multiplied by it.
   */
  look(members: readonly Watched[], { nowMs, factor }: { readonly nowMs: number; readonly factor: number }): Look {
    const moment = { nowMs, factor, timing: this.#timing, isTold: this.#isTold };
    const verdicts: Verdict[] = [];
    const probes: Probe[] = [];
    let alarm: string | null = null;
    let outages = this.#ownOutages(nowMs);
    let flapper: Watched | null = null;
    for (const member of members) {
      const sighting = this.#watch(member, moment);
      if (isWell(sighting, moment)) continue;
      // One at a time: what is not said now is said at the next look.
      outages ??= outagesOf(member, sighting, nowMs);
      if (sighting.outages.isEndless(nowMs)) flapper ??= member;
      const verdict = this.#judge(member, sighting, moment);
      if (verdict) verdicts.push(verdict);
      const brakeable = verdict?.type === "verdict.suspect" && verdict.kind !== "engine";
      if (brakeable) alarm = this.#suspected(member, members.length, nowMs) ?? alarm;
      if (sighting.standing !== "well" || sighting.isDisconnected) this.#ask(member, { sighting, moment, probes });
    }
    for (const other of [this.#cutLink(members, moment), this.#cutFlapper(flapper, members, moment)])
      if (other) verdicts.push(other);
    if (this.#sightings.size !== members.length) this.#forget(members);
    return { verdicts, probes, alarm, outages };
  }

  /** The one that lasts, or one that begins now. */
  #absenceFrom(nowMs: number): Absence {
    this.#absence ??= { fromMs: nowMs, isForgiven: this.#outages.ended(nowMs) };
    return this.#absence;
  }

  #ownOutages(nowMs: number): string | null {
    const outages = this.#outages.word(nowMs);
    const means = "silent members are evicted all the same, so look at the broker and the network";
    return outages === null ? null : `the controller's connection to the broker ${outages}: ${means}`;
  }

  #of(id: string, incarnation: string): Sighting | undefined {
    const sighting = this.#sightings.get(id);
    return sighting?.incarnation === incarnation ? sighting : undefined;
  }

  #remember(incarnation: string): void {
    this.#endedEarly.add(incarnation);
    const [oldest] = this.#endedEarly;
    if (this.#endedEarly.size > endedEarlyMax && oldest !== undefined) this.#endedEarly.delete(oldest);
  }

  #watch({ id, role, incarnation }: Watched, moment: Moment): Sighting {
    const known = this.#of(id, incarnation);
    if (known) return known;
    const sighting = new Sighting(role, incarnation, moment);
    sighting.isDisconnected = this.#endedEarly.delete(incarnation);
    this.#sightings.set(id, sighting);
    this.#brake.cleared(id);
    return sighting;
  }

  #judge({ id, incarnation, order }: Watched, sighting: Sighting, moment: Moment): Verdict | null {
    const silentMs = Math.max(0, moment.nowMs - sighting.heardMs);
    const found = (type: Verdict["type"], kind: EvidenceKind, evidence: string): Verdict => ({
      type,
      id,
      incarnation,
      kind,
      evidence,
      silentMs,
    });
    const isBraked = this.#brake.isOn(moment.nowMs);
    const death = sighting.death(moment);
    if (death && (!isBraked || death === "engine")) return found("verdict.dead", death, sighting.describe(moment));
    const suspicion = sighting.suspicion(moment);
    if (suspicion === "disconnect" && order?.kind === "replica.stop") return null;
    if (suspicion) {
      if (sighting.standing === "suspect") return null;
      sighting.standing = "suspect";
      sighting.reason = suspicion;
      return found("verdict.suspect", suspicion, sighting.describe(moment));
    }
    if (!isBraked && sighting.hangs(moment, this.#phases)) {
      const evidence = sighting.describeHang(moment);
      sighting.standing = "hung";
      sighting.reason = "hang";
      // It has the whole limit again before it is said to hang again.
      sighting.movedMs = moment.nowMs;
      sighting.hungMs = moment.nowMs;
      return found("verdict.hung", "hang", evidence);
    }
    if (sighting.standing === "well" || (sighting.standing === "hung" && !sighting.isOverHang(moment, this.#phases)))
      return null;
    sighting.standing = "well";
    this.#brake.cleared(id);
    return found("verdict.recover", sighting.reason, `after ${sighting.reason}`);
  }

  #suspected({ id }: Watched, members: number, nowMs: number): string | null {
    return this.#brake.suspected(id, { nowMs, deadAfterMs: this.#timing.deadAfterMs.policy, members });
  }

  /** Asks a member that is not well, again and again; each question has its own time. */
  #ask(
    { id, incarnation }: Watched,
    { sighting, moment, probes }: { sighting: Sighting; moment: Moment; probes: Probe[] },
  ): void {
    const { nowMs, factor, timing } = moment;
    const { asked } = sighting;
    if (asked && nowMs - asked.atMs < timing.probeTimeoutMs * factor) return;
    if (asked && sighting.heardMs < asked.atMs) sighting.unanswered += 1;
    this.#nonces += 1;
    sighting.asked = { nonce: this.#nonces, atMs: nowMs };
    probes.push({ id, incarnation, nonce: this.#nonces });
  }

  /** Evicts one end of a data path that stays broken while both ends are heard. */
  #cutLink(members: readonly Watched[], { nowMs, factor, timing }: Moment): Verdict | null {
    if (this.#brake.isOn(nowMs)) return null;
    const isHeard = ({ id }: Watched): boolean => {
      // no mutant: whoever is looked at is watched by now
      const heardMs = this.#sightings.get(id)?.heardMs ?? 0;
      return nowMs - heardMs <= 2 * timing.intervalMs * factor;
    };
    const living = (): readonly string[] => members.filter(isHeard).map(({ id }) => id);
    const worst = this.#links.isEmpty ? null : this.#links.worst(living(), nowMs, timing.deadAfterMs.policy / 2);
    const member = members.find(({ id }) => id === worst);
    if (!member) return null;
    this.#links.forget(member.id);
    const evidence = "lives, and its data path to other members stays broken";
    const { id, incarnation } = member;
    return { type: "verdict.dead", id, incarnation, kind: "peers", evidence, silentMs: 0 };
  }

  /**
   * Evicts a member whose connection ends again and again while others of its role stay connected. Where it is not the only one, the cause is not
   * on its side: an outage of the broker, or of a network between, hits many.
   */
  #cutFlapper(flapper: Watched | null, members: readonly Watched[], { nowMs }: Moment): Verdict | null {
    if (!flapper || this.#brake.isOn(nowMs) || this.#outages.isMany(nowMs)) return null;
    const { id, incarnation, role } = flapper;
    const others = members.filter((member) => member.id !== id);
    const troubled = others.filter((other) => this.#sightings.get(other.id)?.outages.isMany(nowMs));
    if (2 * troubled.length >= others.length || !others.some((other) => other.role === role)) return null;
    const word = this.#sightings.get(id)?.outages.text(nowMs) ?? "";
    const evidence = `its connection to the broker ${word}, while others stay connected: look at its host and its network`;
    return { type: "verdict.dead", id, incarnation, kind: "disconnect", evidence, silentMs: 0 };
  }

  #forget(members: readonly Watched[]): void {
    const ids = new Set(members.map(({ id }) => id));
    for (const id of this.#sightings.keys()) {
      if (ids.has(id)) continue;
      this.#sightings.delete(id);
      this.#brake.cleared(id);
      this.#links.forget(id);
    }
  }
}

function outagesOf({ id }: Watched, { outages }: Sighting, nowMs: number): string | null {
  const word = outages.word(nowMs);
  return word === null ? null : `the connection of ${id} to the broker ${word}: look at its host and its network`;
}

/** Most members most of the time: heard a moment ago, nothing against them, nothing to wait for. */
function isWell(sighting: Sighting, { nowMs, factor, timing }: Moment): boolean {
  // no mutant: whoever is not well beyond doubt is looked at in full
  const beatMs = timing.intervalMs * factor;
  return (
    sighting.standing === "well" &&
    nowMs - sighting.heardMs <= beatMs &&
    sighting.failures === 0 &&
    !sighting.isDisconnected &&
    sighting.reporters.size < 2 &&
    nowMs - sighting.movedMs < timing.hungMinMs
  );
}
