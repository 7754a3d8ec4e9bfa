/** How long phases of work take: the limit after which a member without progress hangs (reliability 4.2, E2). */
import type { DetectorTiming } from "./timing.ts";

const samplesMax = 200;
/** Fewer samples say nothing about the slow ones. */
const samplesMin = 10;

/** Phases of a start: an engine may need minutes, and says so by its phase. */
const startPhases: readonly string[] = ["loading", "building", "compiling", "initializing"];

/** The phase of a member that has nothing to do: it can not hang in it. */
const idlePhase = "idle";

/** A ring of durations. */
interface Ring {
  readonly values: Float64Array;
  count: number;
  next: number;
}

/** Durations by role and phase, of all members together. */
export class PhaseTimes {
  readonly #rings = new Map<string, Map<string, Ring>>();

  /** A member of the role was this long in the phase, or made progress in it after this time. */
  add(role: string, phase: string, durationMs: number): void {
    if (phase === idlePhase) return;
    const ring = this.#ring(role, phase);
    ring.values[ring.next] = durationMs;
    ring.next = (ring.next + 1) % samplesMax;
    if (ring.count < samplesMax) ring.count += 1;
  }

  /** Time without progress in a phase after which a member hangs; `null` when it can not. */
  limitMs(role: string, phase: string, timing: DetectorTiming): number | null {
    if (phase === idlePhase) return null;
    if (startPhases.includes(phase)) return timing.graceMs;
    const { values, count } = this.#ring(role, phase);
    if (count < samplesMin) return timing.hungMaxMs;
    const sorted = values.slice(0, count).sort();
    const p99 = sorted[Math.ceil(count * 0.99) - 1] as number;
    return Math.min(timing.hungMaxMs, Math.max(timing.hungMinMs, 3 * p99));
  }

  #ring(role: string, phase: string): Ring {
    const phases = this.#rings.get(role) ?? new Map<string, Ring>();
    const ring = phases.get(phase) ?? { values: new Float64Array(samplesMax), count: 0, next: 0 };
    this.#rings.set(role, phases);
    phases.set(phase, ring);
    return ring;
  }
}
