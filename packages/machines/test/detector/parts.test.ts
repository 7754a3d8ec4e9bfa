/** The parts of the failure detector that are worth a look by themselves. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GapWindow } from "../../src/detector/gap-window.ts";
import { localHealth } from "../../src/detector/local-health.ts";
import { PhaseTimes } from "../../src/detector/phase-times.ts";
import { phiOf } from "../../src/detector/phi.ts";
import { Sighting } from "../../src/detector/sighting.ts";
import { detectorTimingOf } from "../../src/detector/timing.ts";
import { timing } from "./watcher.ts";

describe("the level of suspicion", () => {
  it("reaches 8 after the times that the design gives", () => {
    const level8At = (deviationMs: number): number => {
      let silentMs = 0;
      while (phiOf(silentMs, 4_000, deviationMs) < 8) silentMs += 10;
      return silentMs;
    };
    expect(level8At(100)).toBeCloseTo(4_500, -2);
    expect(level8At(250)).toBeCloseTo(5_300, -2);
    expect(level8At(500)).toBeCloseTo(6_600, -2);
  });

  it("is that of a pause which is exceeded every second time, at the mean; further off, what is rare on one side is usual on the other", () => {
    expect(phiOf(4_000, 4_000, 100)).toBeCloseTo(Math.log10(2), 9);
    for (const offMs of [1, 50, 200])
      expect(10 ** -phiOf(4_000 + offMs, 4_000, 100) + 10 ** -phiOf(4_000 - offMs, 4_000, 100)).toBeCloseTo(1, 9);
  });

  it("never falls while the silence grows", () => {
    let last = 0;
    for (let silentMs = 0; silentMs < 20_000; silentMs += 10) {
      const level = phiOf(silentMs, 4_000, 250);
      expect(level).toBeGreaterThanOrEqual(last);
      last = level;
    }
  });
});

describe("a member that beats like clockwork", () => {
  it.each([
    [500, 100],
    [1_000, 100],
    [10_000, 1_000],
  ])("every %d ms is granted a deviation of %d ms all the same", (intervalMs, deviationMs) => {
    const own = { ...timing, intervalMs };
    const member = new Sighting("policy", "i1", { nowMs: 0, timing: own });
    const phases = new PhaseTimes();
    const beat = { id: "p0", incarnation: "i1", phase: "idle", progress: 0, loopLagMs: 0, failures: 0 };
    for (let seq = 0; seq < 20; seq++) member.beat({ ...beat, seq }, seq * intervalMs, { timing: own, phases });
    const silentMs = intervalMs + own.pauseMs + 3 * deviationMs;
    const moment = { nowMs: 19 * intervalMs + silentMs, factor: 1, timing: own, isTold: true };
    expect(member.phi(moment)).toBeCloseTo(phiOf(silentMs, intervalMs + own.pauseMs, deviationMs), 6);
  });
});

describe("the window of gaps", () => {
  it("has the mean and deviation of the last 200", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 700 }), (gaps) => {
        const window = new GapWindow(1_000);
        for (const gap of gaps) window.add(gap);
        const kept = [1_000, ...gaps].slice(-200);
        const mean = kept.reduce((sum, gap) => sum + gap, 0) / kept.length;
        const variance = kept.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / kept.length;
        expect(window.meanMs).toBeCloseTo(mean, 3);
        expect(window.deviationMs).toBeCloseTo(Math.sqrt(variance), 1);
      }),
      { seed: 606 },
    );
  });
});

describe("the limit of a phase", () => {
  it("is the most until enough was seen, then three times the slowest of the usual, within bounds; rest has none", () => {
    const phases = new PhaseTimes();
    const limit = (phase: string): number | null => phases.limitMs("policy", phase, timing);
    expect(limit("computing")).toBe(45_000);
    for (let i = 0; i < 10; i++) phases.add("policy", "computing", 10_000);
    expect(limit("computing")).toBe(30_000);
    for (let i = 0; i < 10; i++) phases.add("policy", "pulling", 100);
    expect(limit("pulling")).toBe(20_000);
    for (let i = 0; i < 10; i++) phases.add("policy", "meshing", 40_000);
    expect(limit("meshing")).toBe(45_000);
    expect(limit("compiling")).toBe(600_000);
    expect(limit("idle")).toBeNull();
  });
});

describe("the local health", () => {
  const well = { loopLagMs: 0, brokerRttMs: 5, timerLateMs: 0 };

  it.each([
    ["its loop turns late", { ...well, loopLagMs: 501 }],
    ["the broker answers late", { ...well, brokerRttMs: 1_001 }],
    ["its timers fire late", { ...well, timerLateMs: 1_001 }],
  ])("falls by one each second in which %s, and no further than seven", (_, seen) => {
    let score = 0;
    for (let second = 1; second <= 9; second++) {
      score = localHealth(score, seen, 1_000);
      expect(score).toBe(Math.min(7, second));
    }
    expect(localHealth(score, well, 1_000)).toBe(6);
  });

  it("is best when all is well, also without a broker to ask", () => {
    expect(localHealth(0, { ...well, brokerRttMs: null }, 1_000)).toBe(0);
  });

  it("is not worse for delays of up to an interval, and of its loop of up to half of one", () => {
    expect(localHealth(1, { loopLagMs: 500, brokerRttMs: 1_000, timerLateMs: 1_000 }, 1_000)).toBe(0);
  });
});

describe("the waits of a job", () => {
  it("are those of its configuration; who stops nobody by its silence is waited for longer, and three probes must go unanswered", () => {
    const waits = { heartbeatIntervalMs: 500, suspectAfterMs: 2_000, deadAfterMs: 8_000 };
    const health = {
      phi: 7,
      missedBeats: 4,
      probeTimeoutMs: 300,
      hungMinMs: 9,
      hungMaxMs: 90,
      graceMs: 900,
      failureThreshold: 2,
    };
    const job = { timing: waits, health } as unknown as Parameters<typeof detectorTimingOf>[0];
    expect(detectorTimingOf(job)).toEqual({
      ...{ intervalMs: 500, pauseMs: 2_000, phiMax: 7, missedMax: 4, probes: 3, probeTimeoutMs: 300 },
      deadAfterMs: { policy: 8_000, rollout: 12_000, checkpoint: 24_000, node: 12_000 },
      ...{ hungMinMs: 9, hungMaxMs: 90, graceMs: 900, failuresMax: 2 },
    });
  });
});
