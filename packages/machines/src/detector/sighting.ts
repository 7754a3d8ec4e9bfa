/** What the detector knows of one incarnation, and what follows from it. Times are on the watcher's own monotonic clock. */
import type { EvidenceKind, MemberRole } from "@muster/protocol";
import { GapWindow } from "./gap-window.ts";
import { Outages } from "./outages.ts";
import type { PhaseTimes } from "./phase-times.ts";
import { phiOf } from "./phi.ts";
import type { DetectorTiming } from "./timing.ts";
import type { BeatReading } from "./verdict.ts";

/** Gaps that vary less than this are as good as regular: a busy host delays a beat by as much. */
const deviationMinMs = 100;

/** When a look is taken, and by how much every wait is stretched. */
export interface Moment {
  readonly nowMs: number;
  /** Local health + 1. */
  readonly factor: number;
  readonly timing: DetectorTiming;
  /** The broker tells when a connection ends: then a silence that it does not speak of is less likely to be a death. */
  readonly isTold: boolean;
}

/** One incarnation under watch. */
export class Sighting {
  readonly incarnation: string;
  readonly role: MemberRole;
  standing: "well" | "suspect" | "hung" = "well";
  /** Evidence of the present suspicion. */
  reason: EvidenceKind = "silence";
  seq = -1;
  /** Last sign of life of any kind. */
  heardMs: number;
  /** The broker said that its connection ended, and it was not heard since. */
  isDisconnected = false;
  /** Of its connection to the broker, where that tells of them. */
  readonly outages: Outages;
  /** Members that missed it in a collective since it was heard last. */
  readonly reporters = new Set<string>();
  failures = 0;
  phase = "";
  loopLagMs = 0;
  /** Last time that phase or progress changed, or that it was found hanging. */
  movedMs: number;
  /** When it was found hanging last. */
  hungMs = Number.NEGATIVE_INFINITY;
  /** The question that waits for an answer. */
  asked: { readonly nonce: number; readonly atMs: number } | null = null;
  /** Questions in a row without an answer. */
  unanswered = 0;
  /** Answers of the beat thread in a row while the main loop gave none. */
  loopSilent = 0;
  // no mutant: the first beat sets it
  #progress = -1;
  #beatMs: number;
  readonly #gaps: GapWindow;

  constructor(role: MemberRole, incarnation: string, { nowMs, timing }: Pick<Moment, "nowMs" | "timing">) {
    this.role = role;
    this.incarnation = incarnation;
    this.heardMs = nowMs;
    this.movedMs = nowMs;
    this.#beatMs = nowMs;
    this.#gaps = new GapWindow(timing.intervalMs);
    this.outages = new Outages(timing.deadAfterMs.policy);
  }

  /** A fresh beat. Bursts after a pause, and the pause itself, say nothing about the usual gap. */
  beat(beat: BeatReading, nowMs: number, { timing, phases }: { timing: DetectorTiming; phases: PhaseTimes }): void {
    const gapMs = nowMs - this.#beatMs;
    if (this.seq >= 0 && gapMs >= timing.intervalMs / 4 && gapMs <= timing.pauseMs) this.#gaps.add(gapMs);
    this.#beatMs = nowMs;
    this.heard(nowMs);
    if (beat.phase !== this.phase || beat.progress !== this.#progress) {
      if (this.seq >= 0) phases.add(this.role, this.phase, nowMs - this.movedMs);
      this.movedMs = nowMs;
      this.hungMs = Number.NEGATIVE_INFINITY;
      this.phase = beat.phase;
      this.#progress = beat.progress;
    }
    this.seq = beat.seq;
    this.loopLagMs = beat.loopLagMs;
    this.failures = beat.failures;
  }

  /** True when it made progress since it was found hanging, or when it has nothing to do and its main loop turns again. */
  isOverHang({ factor, timing }: Moment, phases: PhaseTimes): boolean {
    if (this.hungMs === Number.NEGATIVE_INFINITY) return true;
    const isIdle = phases.limitMs(this.role, this.phase, timing) === null;
    return isIdle && this.loopLagMs < timing.hungMinMs * factor;
  }

  /** The broker saw its connection end. It has two, whose ends are one outage. */
  disconnected(nowMs: number): void {
    if (!this.isDisconnected) this.outages.ended(nowMs);
    this.isDisconnected = true;
  }

  /** It lives: whatever was taken for a sign of its death is void. */
  heard(nowMs: number): void {
    this.heardMs = nowMs;
    this.isDisconnected = false;
    this.unanswered = 0;
    this.reporters.clear();
  }

  /** The watcher was away for the last `ms`: every wait begins so much later. */
  skip(ms: number, nowMs: number): void {
    const later = (atMs: number): number => Math.max(atMs, Math.min(atMs + ms, nowMs));
    this.heardMs = later(this.heardMs);
    this.movedMs = later(this.movedMs);
    if (this.asked) this.asked = { ...this.asked, atMs: later(this.asked.atMs) };
  }

  /** The watcher's own view was bad: it gets every wait in full from now on. */
  forgive(nowMs: number): void {
    this.heard(nowMs);
    this.hungMs = Number.NEGATIVE_INFINITY;
    this.movedMs = nowMs;
    this.asked = null;
  }

  phi({ nowMs, factor, timing }: Moment): number {
    const deviationMs = Math.max(this.#gaps.deviationMs, deviationMinMs, timing.intervalMs / 10);
    return phiOf(nowMs - this.heardMs, this.#gaps.meanMs + timing.pauseMs * factor, deviationMs * factor);
  }

  /** Why it is a suspect now, or `null`. Who was never heard is still starting, perhaps on a busy host. */
  suspicion(moment: Moment): EvidenceKind | null {
    const { nowMs, factor, timing } = moment;
    const silentMs = nowMs - this.heardMs;
    if (this.failures > 0) return "engine";
    if (this.isDisconnected) return "disconnect";
    if (this.#isBlamed(moment)) return "peers";
    if (this.seq < 0) return silentMs >= timing.deadAfterMs[this.role] * factor ? "silence" : null;
    if (silentMs <= timing.intervalMs * factor) return null;
    const isSilent = silentMs >= timing.missedMax * timing.intervalMs * factor || this.phi(moment) >= timing.phiMax;
    return isSilent ? "silence" : null;
  }

  /**
   * Why it is dead, or `null`: silence alone proves it late, silence with two other signs earlier. Where the broker tells of no ended
   * connections, that sign can not come, and unanswered probes are enough.
   */
  death(moment: Moment): EvidenceKind | null {
    const { nowMs, factor, timing, isTold } = moment;
    if (this.failures >= timing.failuresMax) return "engine";
    const silentMs = nowMs - this.heardMs;
    const deadAfterMs = timing.deadAfterMs[this.role] * factor;
    if (silentMs < deadAfterMs) return null;
    const signs = [this.unanswered >= timing.probes, this.#isBlamed(moment), this.isDisconnected];
    const isAlone = !isTold && this.unanswered >= timing.probes;
    return silentMs >= 3 * deadAfterMs || isAlone || signs.filter(Boolean).length >= 2 ? "silence" : null;
  }

  /** True when it beats and does not move: beyond the limit of its phase, or with a main loop that does not turn. */
  hangs({ nowMs, factor, timing }: Moment, phases: PhaseTimes): boolean {
    if (this.seq < 0 || nowMs - this.heardMs > 2 * timing.intervalMs * factor) return false;
    const limitMs = phases.limitMs(this.role, this.phase, timing);
    if (limitMs !== null) return nowMs - this.movedMs >= limitMs * factor;
    return this.loopLagMs >= timing.hungMinMs * factor && nowMs - this.movedMs >= timing.hungMinMs * factor;
  }

  /** Everything that speaks against it, in words. */
  describe(moment: Moment): string {
    const { nowMs, timing } = moment;
    const words = [`no sign of life for ${Math.round(nowMs - this.heardMs)} ms`];
    if (this.failures > 0) words[0] = `its engine failed ${this.failures} health checks in a row`;
    if (this.isDisconnected) words.push("the broker saw its connection end");
    if (this.reporters.size > 0) words.push(`missed in a collective by ${[...this.reporters].join(", ")}`);
    if (this.unanswered >= timing.probes) words.push(`${this.unanswered} probes without an answer`);
    return words.join("; ");
  }

  /** What it was doing when it hung, in words. */
  describeHang({ nowMs, timing }: Moment): string {
    const loop =
      this.loopLagMs >= timing.intervalMs ? `its main loop has stood for ${Math.round(this.loopLagMs)} ms` : "";
    const answers = this.loopSilent >= timing.probes ? "its main loop answers no probe" : "";
    const stuck = `beats, and no progress in phase "${this.phase}" for ${Math.round(nowMs - this.movedMs)} ms`;
    return [stuck, loop, answers].filter(Boolean).join("; ");
  }

  /** Two members missed it, or one did while it is silent. */
  #isBlamed({ nowMs, factor, timing }: Moment): boolean {
    if (this.reporters.size === 0) return false;
    return this.reporters.size >= 2 || nowMs - this.heardMs >= 2 * timing.intervalMs * factor;
  }
}
