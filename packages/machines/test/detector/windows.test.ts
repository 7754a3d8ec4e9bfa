/** What the detector remembers of the past: the last gaps, the last durations, the last outages, and no more of them. */
import { describe, expect, it } from "vitest";
import { GapWindow } from "../../src/detector/gap-window.ts";
import { Outages } from "../../src/detector/outages.ts";
import { PhaseTimes } from "../../src/detector/phase-times.ts";
import type { DetectorTiming } from "../../src/detector/timing.ts";
import { Watcher } from "./watcher.ts";

describe("the gaps between beats", () => {
  it("have the mean and the deviation of the last 200, the one that was expected before the first among them", () => {
    const window = new GapWindow(500);
    const all = [500];
    for (let i = 0; i <= 650; i++) {
      const last = all.slice(-200);
      const mean = last.reduce((sum, gap) => sum + gap, 0) / last.length;
      const variance = last.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / last.length;
      expect(window.meanMs, `after ${i}`).toBeCloseTo(mean, 6);
      expect(window.deviationMs, `after ${i}`).toBeCloseTo(Math.sqrt(variance), 3);
      const gap = 100 + ((i * 37) % 101) * (i > 300 ? 9 : 1);
      all.push(gap);
      window.add(gap);
    }
  });

  it("forget what rounding left of a huge one at the turn of the window", () => {
    const window = new GapWindow(500);
    window.add(1e12);
    for (let i = 0; i < 400; i++) window.add(500);
    expect(window.meanMs).toBe(500);
    expect(window.deviationMs).toBe(0);
  });
});

describe("the time in a phase after which a member hangs", () => {
  const timing = { hungMinMs: 100, hungMaxMs: 90_000, graceMs: 7_000 } as DetectorTiming;
  const limitOf = (durations: readonly number[], phase = "work") => {
    const times = new PhaseTimes();
    for (const ms of durations) times.add("policy", phase, ms);
    return times.limitMs("policy", phase, timing);
  };
  const times = (count: number, ms: number): number[] => Array(count).fill(ms);

  it("is the longest there is until ten durations are known, and then three times the slow ones", () => {
    expect(limitOf([])).toBe(90_000);
    expect(limitOf(times(9, 1_000))).toBe(90_000);
    expect(limitOf(times(10, 1_000))).toBe(3_000);
    expect(limitOf([...times(9, 1_000), 4_000])).toBe(12_000);
    expect(limitOf([4_000, ...times(98, 1_000)])).toBe(12_000);
    expect(limitOf([4_000, ...times(99, 1_000)]), "one of a hundred is no rule").toBe(3_000);
  });

  it("is never below the least nor above the most", () => {
    expect(limitOf(times(10, 33))).toBe(100);
    expect(limitOf(times(10, 34))).toBe(102);
    expect(limitOf(times(10, 30_000))).toBe(90_000);
    expect(limitOf(times(10, 30_001))).toBe(90_000);
  });

  it("is of the last 200 durations", () => {
    expect(limitOf([...times(5, 9_000), ...times(195, 1_000)])).toBe(27_000);
    expect(limitOf([...times(5, 9_000), ...times(200, 1_000)])).toBe(3_000);
    expect(limitOf([...times(200, 1_000), ...times(5, 9_000)])).toBe(27_000);
    expect(limitOf([...times(203, 1_000), ...times(3, 9_000), ...times(198, 1_000)]), "two are left").toBe(3_000);
    expect(limitOf([...times(203, 1_000), ...times(3, 9_000), ...times(197, 1_000)]), "three are left").toBe(27_000);
  });

  it("does not end for who has nothing to do, and is the grace of a start while one starts", () => {
    expect(limitOf(times(20, 10), "idle")).toBeNull();
    for (const phase of ["loading", "building", "compiling", "initializing"])
      expect(limitOf(times(20, 10), phase), phase).toBe(7_000);
  });

  it("is of the role and of the phase", () => {
    const known = new PhaseTimes();
    for (let i = 0; i < 10; i++) known.add("policy", "work", 1_000);
    expect(known.limitMs("rollout", "work", timing)).toBe(90_000);
    expect(known.limitMs("policy", "play", timing)).toBe(90_000);
    expect(known.limitMs("policy", "work", timing)).toBe(3_000);
  });
});

describe("a member without progress", () => {
  /** Works from 0 on, is heard last at `heardMs`, and looked at at `nowMs`. */
  const isHung = (heardMs: number, nowMs: number, factor = 1): boolean => {
    const watcher = new Watcher(["p0"]);
    watcher.factor = factor;
    for (const atMs of [0, heardMs]) {
      watcher.nowMs = atMs;
      watcher.beat("p0", { phase: "computing", progress: 1 });
    }
    watcher.nowMs = nowMs;
    return watcher.look().includes("p0 hung hang");
  };

  it("hangs at the limit of its phase when it was heard within two intervals, else it is silent", () => {
    expect([isHung(43_000, 44_999), isHung(43_000, 45_000), isHung(42_999, 45_000)]).toEqual([false, true, false]);
    expect([isHung(86_000, 90_000, 2), isHung(85_999, 90_000, 2)]).toEqual([true, false]);
  });

  it("does not hang before its first beat, whose number may be 0", () => {
    const of = (beats: boolean): readonly string[] => {
      const watcher = new Watcher(["p0"], { hungMaxMs: 10_000, hungMinMs: 10_000 });
      const first = { id: "p0", incarnation: "i1", seq: 0, phase: "computing", progress: 1, loopLagMs: 0, failures: 0 };
      if (beats) watcher.detector.beat(first, 0);
      watcher.nowMs = 9_000;
      watcher.look();
      const { nonce = 0 } = watcher.last.probes[0] ?? {};
      watcher.nowMs = 9_500;
      watcher.look();
      watcher.detector.answered({ id: "p0", incarnation: "i1", nonce, by: "thread" }, 9_500);
      watcher.nowMs = 11_000;
      return watcher.look().filter((line) => line.includes("hung"));
    };
    expect([of(false), of(true)]).toEqual([[], ["p0 hung hang"]]);
  });
});

describe("the ends of a connection", () => {
  it("are forgiven three times within thirty time-outs, and no more", () => {
    const outages = new Outages(1_000);
    expect([0, 1, 2, 3].map((ms) => outages.ended(ms))).toEqual([true, true, true, false]);
    expect(outages.isMany(3)).toBe(true);
    expect(outages.isMany(29_999)).toBe(true);
    expect(outages.isMany(30_000), "the first is over").toBe(false);
    expect(outages.text(30_000)).toBe("ended 3 times within 30 s");
    expect(outages.ended(30_003), "all are over").toBe(true);
  });

  it("are endless from the tenth within the window on", () => {
    const outages = new Outages(1_000);
    for (let i = 0; i < 9; i++) outages.ended(i);
    expect(outages.isEndless(9)).toBe(false);
    outages.ended(9);
    expect(outages.isEndless(9)).toBe(true);
    expect(outages.isEndless(30_000)).toBe(false);
  });

  it("are remembered 64 at a time, so that a storm of them costs no memory", () => {
    const outages = new Outages(1_000);
    for (let i = 0; i < 100; i++) outages.ended(i);
    expect(outages.text(100)).toBe("ended 64 times within 30 s");
  });

  it("are said when they are too many, and again only after a window", () => {
    const outages = new Outages(1_000);
    for (let i = 0; i < 3; i++) outages.ended(0);
    expect(outages.word(0)).toBeNull();
    for (let i = 0; i < 4; i++) outages.ended(10_000);
    expect(outages.word(10_000)).toBe("ended 7 times within 30 s");
    for (let i = 0; i < 4; i++) outages.ended(39_000);
    expect(outages.word(39_999)).toBeNull();
    expect(outages.word(40_000)).toBe("ended 4 times within 30 s");
  });
});
