/** Each wait of the failure detector at its bound, with a watcher that is not quite well itself: every time counts twice. */
import { describe, expect, it } from "vitest";
import { Brake } from "../../src/detector/brake.ts";
import { BrokenLinks } from "../../src/detector/broken-links.ts";
import { PhaseTimes } from "../../src/detector/phase-times.ts";
import { Sighting } from "../../src/detector/sighting.ts";
import { timing } from "./watcher.ts";

const own = { ...timing, pauseMs: 60_000 };
const phases = new PhaseTimes();
const moment = (nowMs: number, patch: object = {}) => ({ nowMs, factor: 2, timing: own, isTold: true, ...patch });
const beat = { id: "p0", incarnation: "i1", seq: 1, phase: "idle", progress: 0, loopLagMs: 0, failures: 0 };
const fresh = (): Sighting => new Sighting("policy", "i1", { nowMs: 0, timing: own });
const heard = (patch: object = {}): Sighting => {
  const member = fresh();
  member.beat({ ...beat, ...patch }, 0, { timing: own, phases });
  return member;
};

describe("a member", () => {
  it("begins well, with nothing against it", () => {
    const well = { standing: "well", seq: -1, failures: 0, loopLagMs: 0, unanswered: 0, loopSilent: 0 };
    expect(fresh()).toMatchObject({ ...well, isDisconnected: false, asked: null, phase: "" });
  });

  it.each<[string, () => Sighting, number, string]>([
    ["never heard, for its whole time-out", fresh, 20_000, "silence"],
    ["silent for five beats", () => heard(), 10_000, "silence"],
    [
      "missed by one other, for two beats",
      () => {
        const member = heard();
        member.reporters.add("p1");
        return member;
      },
      4_000,
      "peers",
    ],
  ])("is a suspect when it was %s, and not a moment earlier", (_, member, atMs, why) => {
    expect(member().suspicion(moment(atMs - 1))).toBeNull();
    expect(member().suspicion(moment(atMs))).toBe(why);
  });

  it("is a suspect at exactly the level of suspicion that is set", () => {
    const phiMax = heard().phi(moment(9_000, { timing }));
    expect(heard().suspicion(moment(9_000, { timing: { ...timing, phiMax } }))).toBe("silence");
    expect(heard().suspicion(moment(8_990, { timing: { ...timing, phiMax } }))).toBeNull();
  });

  it("is none while it is silent for no longer than a beat, whatever the level of suspicion", () => {
    const early = { timing: { ...own, pauseMs: 0, phiMax: 0.1 } };
    expect(heard().suspicion(moment(2_000, early))).toBeNull();
    expect(heard().suspicion(moment(2_001, early))).toBe("silence");
  });

  it("says how long its phase took, from its first beat on", () => {
    const [known, member] = [new PhaseTimes(), fresh()];
    for (let seq = 0; seq <= 10; seq++)
      member.beat({ ...beat, phase: "work", seq, progress: seq }, seq * 7_000, { timing: own, phases: known });
    expect(known.limitMs("policy", "work", own)).toBe(21_000);
  });

  it.each<[string, Partial<Sighting>, object, number]>([
    ["silence alone", {}, {}, 60_000],
    ["silence, unanswered probes and the end of its connection", { unanswered: 3, isDisconnected: true }, {}, 20_000],
    ["silence and unanswered probes, where the broker tells of no ends", { unanswered: 3 }, { isTold: false }, 20_000],
    ["silence and one sign", { unanswered: 3 }, {}, 60_000],
    ["silence and too few unanswered probes", { unanswered: 2, isDisconnected: true }, {}, 60_000],
  ])("is dead by %s, and not a moment earlier", (_, signs, patch, atMs) => {
    const member = Object.assign(heard(), signs);
    expect(member.death(moment(atMs - 1, patch))).toBeNull();
    expect(member.death(moment(atMs, patch))).toBe("silence");
  });

  it("hangs after the limit of its phase, or with a main loop that has stood for as long, while it beats", () => {
    const at = (patch: object, nowMs: number, heardMs = nowMs): boolean =>
      Object.assign(heard(patch), { heardMs }).hangs(moment(nowMs), phases);
    expect([at({ phase: "work" }, 89_999), at({ phase: "work" }, 90_000)]).toEqual([false, true]);
    expect([at({ phase: "work" }, 99_000, 95_000), at({ phase: "work" }, 99_000, 94_999)]).toEqual([true, false]);
    expect([at({ loopLagMs: 40_000 }, 39_999), at({ loopLagMs: 40_000 }, 40_000)]).toEqual([false, true]);
    expect(at({ loopLagMs: 39_999 }, 50_000)).toBe(false);
  });

  it("hangs no more once its loop turns again, where it has nothing to do", () => {
    const over = (loopLagMs: number, phase = "idle"): boolean =>
      Object.assign(heard({ loopLagMs, phase }), { hungMs: 5 }).isOverHang(moment(6), phases);
    expect([over(39_999), over(40_000), over(0, "work")]).toEqual([true, false, false]);
  });

  it("is free of what spoke against it once it is heard", () => {
    const member = Object.assign(heard(), { unanswered: 3, isDisconnected: true });
    member.reporters.add("p1").add("p2");
    expect(member.describe(moment(2_000))).toBe(
      "no sign of life for 2000 ms; the broker saw its connection end; missed in a collective by p1, p2; 3 probes without an answer",
    );
    member.heard(2_000);
    expect(member.describe(moment(2_000))).toBe("no sign of life for 0 ms");
    expect([member.suspicion(moment(2_000)), member.reporters.size, member.unanswered]).toEqual([null, 0, 0]);
  });

  it("is described by the first failed check of its engine, and by the first that missed it", () => {
    const failing = heard({ failures: 1 });
    failing.reporters.add("p1");
    expect(failing.describe(moment(0))).toBe(
      "its engine failed 1 health checks in a row; missed in a collective by p1",
    );
  });

  it("is said to hang with its loop and its answers only where these are as bad", () => {
    const said = (loopLagMs: number, loopSilent: number): string =>
      Object.assign(heard({ loopLagMs, phase: "work" }), { loopSilent }).describeHang(moment(7_000));
    const stuck = 'beats, and no progress in phase "work" for 7000 ms';
    expect(said(999, 2)).toBe(stuck);
    expect(said(1_000, 3)).toBe(`${stuck}; its main loop has stood for 1000 ms; its main loop answers no probe`);
  });

  it("is expected by gaps from a quarter of the interval up to the pause, from its second beat on", () => {
    const after = (gapMs: number): number => {
      const member = fresh();
      for (const [seq, atMs] of [
        [0, 7_000],
        [1, 7_000 + gapMs],
      ] as const)
        member.beat({ ...beat, seq }, atMs, { timing, phases });
      return member.phi(moment(7_000 + gapMs + 7_500, { timing }));
    };
    const usual = heard().phi(moment(7_500, { timing }));
    expect([after(249), after(3_001)]).toEqual([usual, usual]);
    for (const gapMs of [250, 3_000]) expect(after(gapMs)).not.toBe(usual);
  });
});

describe("the brake", () => {
  const suspected = (brake: Brake, ids: readonly string[], members: number, nowMs = 0): readonly (string | null)[] =>
    ids.map((id) => brake.suspected(id, { nowMs, deadAfterMs: 100, members }));

  it("is pulled by more than two, and by more than a fifth of many", () => {
    expect(suspected(new Brake(), ["a", "b", "c"], 5).map((why) => why !== null)).toEqual([false, false, true]);
    const many = Array.from({ length: 5 }, (_, i) => `m${i}`);
    expect(suspected(new Brake(), many, 20).map((why) => why !== null)).toEqual([false, false, false, false, true]);
  });

  it("counts each member once, and nobody whose silence is a time-out ago, or who is heard again", () => {
    expect(suspected(new Brake(), ["a", "a", "a", "a"], 5)).toEqual([null, null, null, null]);
    const late = new Brake();
    suspected(late, ["a", "b"], 5);
    expect(suspected(late, ["c"], 5, 100)).toEqual([null]);
    const clear = new Brake();
    suspected(clear, ["a", "b"], 5);
    clear.cleared("a");
    expect(suspected(clear, ["b", "c"], 5)).toEqual([null, null]);
    expect(suspected(clear, ["d"], 5)).not.toEqual([null]);
  });

  it("is on until a time-out after the last sign", () => {
    const brake = new Brake();
    expect(brake.isOn(0)).toBe(false);
    brake.pull(50, 100);
    expect([brake.isOn(149), brake.isOn(150)]).toEqual([true, false]);
  });
});

describe("a data path", () => {
  const links = (times: readonly number[], ends = ["a", "b"]): BrokenLinks => {
    const broken = new BrokenLinks();
    for (const atMs of times) broken.add(ends[0] ?? "", ends[1] ?? "", atMs);
    return broken;
  };

  it("is broken after three failures over the span, and well again once there was none for that long", () => {
    const worst = (times: readonly number[], nowMs: number) => links(times).worst(["a", "b"], nowMs, 100);
    expect(worst([0, 100], 100)).toBeNull();
    expect(worst([0, 50, 99], 100)).toBeNull();
    expect(worst([0, 50, 100], 100)).toBe("b");
    expect(worst([0, 50, 100], 200)).toBe("b");
    expect(worst([0, 50, 100], 201)).toBeNull();
    expect(links([0, 50, 100]).worst(["a"], 100, 100)).toBeNull();
  });

  it("is nobody's business when it is well, forgotten or cleared", () => {
    const [well, out, cleared] = [links([0, 50, 100]), links([0, 50, 100]), links([0, 50, 100])];
    well.worst(["a", "b"], 201, 100);
    out.forget("b");
    cleared.clear();
    expect([well.isEmpty, out.isEmpty, cleared.isEmpty]).toEqual([true, true, true]);
  });

  it("costs the member with the most broken ones its place, of equals the youngest", () => {
    const broken = links([0, 50, 100]);
    for (const atMs of [0, 50, 100]) broken.add("c", "a", atMs);
    expect(broken.worst(["a", "b", "c"], 100, 100)).toBe("a");
    broken.forget("c");
    expect(broken.worst(["a", "b", "c"], 100, 100), "the youngest of all has none").toBe("b");
  });

  it("is one of 4,096 that are remembered; one more, and all are counted anew", () => {
    const broken = links([0, 50, 100]);
    for (let i = 1; i < 4_096; i++) broken.add("x", `y${i}`, 100);
    expect(broken.worst(["a", "b"], 100, 100)).toBe("b");
    broken.add("a", "b", 100);
    expect(broken.worst(["a", "b"], 100, 100)).toBe("b");
    broken.add("x", "z", 100);
    expect(broken.worst(["a", "b"], 100, 100)).toBeNull();
  });
});
