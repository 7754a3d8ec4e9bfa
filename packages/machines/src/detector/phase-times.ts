/** How long phases of work take: the limit after which a member without progress hangs (reliability 4.2, E2). */
import type { DetectorTiming } from "./timing.ts";

const samplesMax = 200;
/** Fewer samples say nothing about the slow ones. */
const samplesMin = 10;

/** Phases of a start: an engine may need minutes, and says so by its phase. */
const startPhases: readonly string[] = ["loading", "building", "compiling", "initializing"];

/** The phase of a member that has nothing to do: it can not hang in it. */
const idlePhase = "idle";

/** Durations by role and phase, of all members together. */
export class PhaseTimes {
  readonly #samples = new Map<string, number[]>();

  /** A member of the role was this long in the phase, or made progress in it after this time. */
  add(role: string, phase: string, durationMs: number): void {
    if (phase === idlePhase) return;
    const key = `${role}.${phase}`;
    const samples = this.#samples.get(key) ?? [];
    samples.push(durationMs);
    if (samples.length > samplesMax) samples.shift();
    this.#samples.set(key, samples);
  }

  /** Time without progress in a phase after which a member hangs; `null` when it can not. */
  limitMs(role: string, phase: string, timing: DetectorTiming): number | null {
    if (phase === idlePhase) return null;
    if (startPhases.includes(phase)) return timing.graceMs;
    const samples = this.#samples.get(`${role}.${phase}`) ?? [];
    if (samples.length < samplesMin) return timing.hungMaxMs;
    const sorted = [...samples].sort((a, b) => a - b);
    const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1] as number;
    return Math.min(timing.hungMaxMs, Math.max(timing.hungMinMs, 3 * p99));
  }
}
