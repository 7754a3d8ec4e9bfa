/** A detector with a hand on its clock. */
import { type BeatReading, type DetectorTiming, FailureDetector, type Look, type Watched } from "@muster/machines";

/** The defaults of production, with room for tests. */
export const timing: DetectorTiming = {
  intervalMs: 1_000,
  pauseMs: 3_000,
  phiMax: 8,
  missedMax: 5,
  deadAfterMs: { policy: 10_000, rollout: 15_000, checkpoint: 30_000, node: 15_000 },
  probes: 3,
  probeTimeoutMs: 1_000,
  hungMinMs: 20_000,
  hungMaxMs: 45_000,
  graceMs: 600_000,
  failuresMax: 3,
};

/** A member of some role named after it, as its life `i1`. */
export function watchedOf(id: string, incarnation = "i1"): Watched {
  const role = id.startsWith("p") ? "policy" : id.startsWith("c") ? "checkpoint" : "rollout";
  return { id, incarnation, role };
}

/** Watches some members; time moves by hand. */
export class Watcher {
  readonly detector: FailureDetector;
  members: readonly Watched[];
  nowMs = 0;
  factor = 1;
  /** Every verdict as `p0 suspect silence`. */
  readonly said: string[] = [];
  readonly alarms: string[] = [];
  readonly outages: string[] = [];
  last: Look = { verdicts: [], probes: [], alarm: null, outages: null };
  #seq = 0;

  constructor(ids: readonly string[], patch: Partial<DetectorTiming> = {}, isTold = true) {
    this.detector = new FailureDetector({ ...timing, ...patch });
    if (isTold) this.detector.hearsDisconnects();
    this.members = ids.map((id) => watchedOf(id));
    this.look();
  }

  beat(id: string, patch: Partial<BeatReading> = {}): void {
    const rest = { phase: "idle", progress: 0, loopLagMs: 0, failures: 0 };
    this.detector.beat({ id, incarnation: "i1", seq: ++this.#seq, ...rest, ...patch }, this.nowMs);
  }

  /** Looks now. @returns The verdicts as `p0 suspect silence`. */
  look(): readonly string[] {
    this.last = this.detector.look(this.members, { nowMs: this.nowMs, factor: this.factor });
    const lines = this.last.verdicts.map(({ type, id, kind }) => `${id} ${type.slice(8)} ${kind}`);
    this.said.push(...lines);
    if (this.last.alarm !== null) this.alarms.push(this.last.alarm);
    if (this.last.outages !== null) this.outages.push(this.last.outages);
    for (const { id, type } of this.last.verdicts)
      if (type === "verdict.dead") this.members = this.members.filter((member) => member.id !== id);
    return lines;
  }

  /** Lets time pass with a look every 200 ms, while some members beat once a second. @returns What was said meanwhile. */
  pass(ms: number, beating: readonly string[] = [], patch: Partial<BeatReading> = {}): readonly string[] {
    const from = this.said.length;
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) {
      this.nowMs += 200;
      if (this.nowMs % 1_000 === 0) for (const id of beating) this.beat(id, patch);
      this.look();
    }
    return this.said.slice(from);
  }
}
