/** Evidence and verdicts of the failure detector (reliability 4.1, 4.2). */
import { describe, expect, it } from "vitest";
import { Watcher, watchedOf } from "./watcher.ts";

describe("silence", () => {
  it("makes a suspect at level 8, before five beats are missed, and beats take it back", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(20_000, ["p0"]);
    expect(watcher.said).toEqual([]);
    expect(watcher.pass(4_400)).toEqual([]);
    expect(watcher.pass(400)).toEqual(["p0 suspect silence"]);
    expect(watcher.pass(1_000)).toEqual([]);
    watcher.beat("p0");
    expect(watcher.look()).toEqual(["p0 recover silence"]);
  });

  it("makes a suspect of who missed five beats, whatever the level", () => {
    const watcher = new Watcher(["p0"], { pauseMs: 60_000 });
    watcher.pass(20_000, ["p0"]);
    expect(watcher.pass(4_800)).toEqual([]);
    expect(watcher.pass(200)).toEqual(["p0 suspect silence"]);
  });

  it("alone, without an answer to any probe, is death only after three times the time-out", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(5_000, ["p0"]);
    expect(watcher.pass(29_800)).toEqual(["p0 suspect silence"]);
    expect(watcher.pass(200)).toEqual(["p0 dead silence"]);
  });

  it("is death at the time-out when probes go unanswered and the broker saw the connection end", () => {
    const watcher = new Watcher(["p0", "p1"]);
    watcher.pass(5_000, ["p0", "p1"]);
    watcher.detector.disconnected("p0", "i1", watcher.nowMs);
    expect(watcher.look()).toEqual(["p0 suspect disconnect"]);
    expect(watcher.pass(9_800, ["p1"])).toEqual([]);
    watcher.nowMs += 200;
    expect(watcher.look()).toEqual(["p0 dead silence"]);
    expect(watcher.last.verdicts[0]).toMatchObject({
      silentMs: 10_000,
      evidence: "no sign of life for 10000 ms; the broker saw its connection end; 8 probes without an answer",
    });
  });

  it("is death at the time-out when probes go unanswered, where the broker tells of no ended connections", () => {
    const watcher = new Watcher(["p0", "p1"], {}, false);
    watcher.pass(5_000, ["p0", "p1"]);
    expect(watcher.pass(9_800, ["p1"])).toEqual(["p0 suspect silence"]);
    expect(watcher.pass(200, ["p1"])).toEqual(["p0 dead silence"]);
  });

  it("waits longer for who stops nobody: rollouts half as long again", () => {
    const watcher = new Watcher(["r0", "p1"]);
    watcher.pass(5_000, ["r0", "p1"]);
    watcher.detector.disconnected("r0", "i1", watcher.nowMs);
    watcher.pass(14_800, ["p1"]);
    expect(watcher.said).toEqual(["r0 suspect disconnect"]);
    expect(watcher.pass(400, ["p1"])).toEqual(["r0 dead silence"]);
  });

  it("is no reason to suspect a member that was never heard: it may still be starting", () => {
    const watcher = new Watcher(["p0"]);
    expect(watcher.pass(9_800)).toEqual([]);
    expect(watcher.pass(200)).toEqual(["p0 suspect silence"]);
  });
});

describe("beats", () => {
  it("count once, in order, and only of the life that is watched", () => {
    const watcher = new Watcher(["p0"]);
    watcher.beat("p0", { seq: 50 });
    watcher.nowMs = 4_000;
    for (const patch of [{ seq: 50 }, { seq: 49 }, { seq: 99, incarnation: "i0" }]) watcher.beat("p0", patch);
    watcher.nowMs = 5_000;
    expect(watcher.look()).toEqual(["p0 suspect silence"]);
  });

  it("go on counting after one with a number that no process ever reaches", () => {
    const watcher = new Watcher(["p0"]);
    watcher.beat("p0", { seq: 50 });
    watcher.beat("p0", { seq: Number.MAX_SAFE_INTEGER });
    watcher.nowMs = 4_000;
    watcher.beat("p0", { seq: 54 });
    watcher.nowMs = 5_000;
    expect(watcher.look()).toEqual([]);
  });

  it("that are up to sixteen behind are late, and one that is further behind counts", () => {
    const after = (seq: number): readonly string[] => {
      const watcher = new Watcher(["p0"]);
      watcher.beat("p0", { seq: 50 });
      watcher.nowMs = 4_000;
      watcher.beat("p0", { seq });
      watcher.nowMs = 5_000;
      return watcher.look();
    };
    for (const late of [50, 49, 34]) expect(after(late), `${late}`).toEqual(["p0 suspect silence"]);
    for (const fresh of [51, 33]) expect(after(fresh), `${fresh}`).toEqual([]);
  });

  it("that come in a burst after a pause do not make the next pause look long", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(30_000, ["p0"]);
    watcher.nowMs += 3_500;
    for (let i = 0; i < 200; i++) {
      watcher.nowMs += 1;
      watcher.beat("p0");
    }
    watcher.look();
    expect(watcher.pass(4_200)).toEqual([]);
  });

  it("of the next life start anew", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(3_000, ["p0"]);
    watcher.pass(6_000);
    watcher.members = [watchedOf("p0", "i2")];
    expect(watcher.look()).toEqual([]);
    watcher.beat("p0", { incarnation: "i2", seq: 1 });
    expect(watcher.pass(3_000)).toEqual([]);
  });
});

describe("the end of a connection", () => {
  it("makes a suspect at once, and one beat takes it back", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(3_000, ["p0"]);
    watcher.detector.disconnected("p0", "i1", watcher.nowMs);
    expect(watcher.look()).toEqual(["p0 suspect disconnect"]);
    expect(watcher.last.probes).toMatchObject([{ id: "p0", incarnation: "i1" }]);
    expect(watcher.last.verdicts[0]?.silentMs).toBe(0);
    watcher.beat("p0");
    expect(watcher.look()).toEqual(["p0 recover disconnect"]);
  });

  it("counts also when it comes before the first look at who has just joined", () => {
    const watcher = new Watcher(["p0"]);
    watcher.detector.disconnected("p1", "i1", watcher.nowMs);
    watcher.members = [...watcher.members, watchedOf("p1")];
    expect(watcher.look()).toEqual(["p1 suspect disconnect"]);
  });

  it("is remembered of the last 256 lives that were not watched yet", () => {
    const watcher = new Watcher(["p0"]);
    for (let i = 0; i <= 256; i++) watcher.detector.disconnected(`r${i}`, `life-${i}`, 0);
    const joins = (i: number): readonly string[] => {
      watcher.members = [...watcher.members, watchedOf(`r${i}`, `life-${i}`)];
      return watcher.look();
    };
    expect([joins(0), joins(1), joins(256)]).toEqual([[], ["r1 suspect disconnect"], ["r256 suspect disconnect"]]);
  });

  it("of members that were told to stop is what was to come, however many go at once; one that never says so is out in time", () => {
    const ids = ["p0", "r0", "r1", "c0"];
    const watcher = new Watcher(ids);
    watcher.pass(3_000, ids);
    watcher.members = watcher.members.map((member) => ({ ...member, order: { kind: "replica.stop" } }));
    for (const id of ids) watcher.detector.disconnected(id, "i1", watcher.nowMs);
    watcher.look();
    expect([watcher.said, watcher.alarms]).toEqual([[], []]);
    watcher.members = watcher.members.filter(({ id }) => id === "p0");
    watcher.pass(11_000);
    expect(watcher.said).toEqual(["p0 dead silence"]);
  });

  it("of another life means nothing", () => {
    const watcher = new Watcher(["p0"]);
    watcher.detector.disconnected("p0", "i0", watcher.nowMs);
    expect(watcher.look()).toEqual([]);
  });
});

describe("a probe", () => {
  const suspected = (): Watcher => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(3_000, ["p0"]);
    watcher.pass(5_000);
    return watcher;
  };
  const answer = (watcher: Watcher, by: "thread" | "loop", nonce = watcher.last.probes[0]?.nonce ?? -1): void =>
    watcher.detector.answered({ id: "p0", incarnation: "i1", nonce, by }, watcher.nowMs);

  it("is sent to a suspect once a second, each with a number of its own", () => {
    const watcher = suspected();
    const nonces: number[] = [];
    for (let i = 0; i < 15; i++) {
      watcher.pass(200);
      nonces.push(...watcher.last.probes.map(({ nonce }) => nonce));
    }
    const [first = Number.NaN] = nonces;
    expect(nonces).toEqual([first, first + 1, first + 2]);
  });

  it("has twice the time for its answer where every wait counts twice", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(3_000, ["p0"]);
    watcher.factor = 2;
    watcher.pass(9_000);
    const asked = (): boolean => watcher.last.probes.length > 0;
    while (!asked()) watcher.pass(200);
    const fromMs = watcher.nowMs;
    do watcher.pass(200);
    while (!asked());
    expect(watcher.nowMs - fromMs).toBe(2_000);
  });

  it("that is answered is a sign of life; the answer to an older one is not", () => {
    const watcher = suspected();
    while (watcher.last.probes.length === 0) watcher.pass(200);
    answer(watcher, "thread", 0);
    expect(watcher.look()).toEqual([]);
    while (watcher.last.probes.length === 0) watcher.pass(200);
    answer(watcher, "thread");
    expect(watcher.look()).toEqual(["p0 recover silence"]);
  });
});

describe("a member that hangs and is asked", () => {
  /** What is said of it when it hangs for the second time, after these answers to the first probes and none to the others. */
  const evidenceAfter = (answers: readonly ("thread" | "loop")[]): string | undefined => {
    const watcher = new Watcher(["p0"]);
    const left = [...answers];
    while (watcher.said.length < 2 && watcher.nowMs < 200_000) {
      watcher.pass(200, ["p0"], { phase: "computing", progress: 1 });
      const [probe] = watcher.last.probes;
      const by = probe && left.shift();
      if (by) watcher.detector.answered({ id: "p0", incarnation: "i1", nonce: probe.nonce, by }, watcher.nowMs);
    }
    expect(watcher.said).toEqual(["p0 hung hang", "p0 hung hang"]);
    return watcher.last.verdicts[0]?.evidence;
  };

  it("is said to have a main loop that answers nothing after three answers in a row of its beat thread alone", () => {
    const silent = expect.stringContaining("its main loop answers no probe");
    expect(evidenceAfter(["thread", "thread", "thread"])).toEqual(silent);
    expect(evidenceAfter(["loop", "thread", "thread", "thread"])).toEqual(silent);
    for (const answers of [
      ["thread", "thread"],
      ["thread", "thread", "loop", "thread", "thread"],
      ["loop", "loop", "loop", "loop"],
    ] as const)
      expect(evidenceAfter(answers), answers.join()).not.toEqual(silent);
  });
});

describe("members that miss each other", () => {
  it("make a suspect when two of them say so, or one and it is silent", () => {
    const watcher = new Watcher(["p0", "p1", "p2"]);
    watcher.pass(3_000, ["p0", "p1", "p2"]);
    watcher.detector.blamed("p0", ["p2"], watcher.nowMs);
    expect(watcher.look()).toEqual([]);
    watcher.detector.blamed("p1", ["p2"], watcher.nowMs);
    expect(watcher.look()).toEqual(["p2 suspect peers"]);
    watcher.pass(1_000, ["p0", "p1", "p2"]);
    watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
    expect(watcher.pass(2_200, ["p0", "p2"])).toEqual(["p1 suspect peers"]);
  });

  it("bring death forward together with unanswered probes", () => {
    const watcher = new Watcher(["p0", "p1", "p2"]);
    watcher.pass(3_000, ["p0", "p1", "p2"]);
    watcher.detector.blamed("p0", ["p2"], watcher.nowMs);
    watcher.detector.blamed("p1", ["p2"], watcher.nowMs);
    expect(watcher.pass(10_200, ["p0", "p1"])).toEqual(["p2 suspect peers", "p2 dead silence"]);
  });

  it("again and again although both live lose the one with more broken links, of equals the younger", () => {
    const watcher = new Watcher(["p0", "p1", "p2"]);
    for (let i = 0; i < 5; i++) {
      watcher.pass(1_000, ["p0", "p1", "p2"]);
      watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
      watcher.detector.blamed("p2", ["p1"], watcher.nowMs);
    }
    expect(watcher.said.filter((line) => line.includes("dead"))).toEqual([]);
    watcher.pass(1_000, ["p0", "p1", "p2"]);
    watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
    watcher.detector.blamed("p2", ["p1"], watcher.nowMs);
    expect(watcher.pass(1_000, ["p0", "p1", "p2"])).toContain("p1 dead peers");
  });

  it("of a single broken link lose the younger end", () => {
    const watcher = new Watcher(["p0", "p1", "p2"]);
    for (let i = 0; i < 6; i++) {
      watcher.pass(1_000, ["p0", "p1", "p2"]);
      watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
    }
    expect(watcher.pass(1_000, ["p0", "p1", "p2"])).toEqual(["p1 dead peers"]);
  });

  it("cost one its place once, although the controller may take a while to evict it", () => {
    const watcher = new Watcher(["p0", "p1", "p2"]);
    const { members } = watcher;
    for (let i = 0; i < 6; i++) {
      watcher.pass(1_000, ["p0", "p1", "p2"]);
      watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
    }
    watcher.look();
    expect(watcher.last.verdicts).toMatchObject([{ type: "verdict.dead", id: "p1", kind: "peers", silentMs: 0 }]);
    watcher.members = members;
    expect(watcher.look()).toEqual([]);
  });

  it.each([
    [1, 1_800, true],
    [1, 2_200, false],
    [2, 3_800, true],
    [2, 4_200, false],
  ])(
    "count only while they are heard, which is within two beats: at %i times the waits after %i ms %s",
    (factor, silentMs, isOut) => {
      const all = ["p0", "p1", "p2"];
      const watcher = new Watcher(all);
      watcher.factor = factor;
      const complain = (): void => {
        for (const id of ["p0", "p2"]) watcher.detector.blamed(id, ["p1"], watcher.nowMs);
      };
      for (let i = 0; i < 5; i++) {
        watcher.pass(1_000, all);
        complain();
      }
      watcher.pass(silentMs, ["p0", "p2"]);
      complain();
      expect(watcher.look().includes("p1 dead peers")).toBe(isOut);
    },
  );

  it("say nothing against the next life of one that left meanwhile", () => {
    const all = ["p0", "p1", "p2"];
    const watcher = new Watcher(all);
    const complain = (): void => {
      watcher.pass(1_000, all);
      for (const id of ["p0", "p2"]) watcher.detector.blamed(id, ["p1"], watcher.nowMs);
    };
    for (let i = 0; i < 5; i++) complain();
    const { members } = watcher;
    watcher.members = members.filter(({ id }) => id !== "p1");
    watcher.look();
    watcher.members = members;
    complain();
    expect(watcher.pass(1_000, all)).not.toContain("p1 dead peers");
  });

  it("for a moment only cost nobody anything", () => {
    const watcher = new Watcher(["p0", "p1"]);
    watcher.pass(1_000, ["p0", "p1"]);
    for (let i = 0; i < 9; i++) watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
    expect(watcher.pass(20_000, ["p0", "p1"])).toEqual([]);
  });
});

describe("a member that beats and does not move", () => {
  const usual = (watcher: Watcher, id: string, count = 20): void => {
    for (let i = 0; i < count; i++) watcher.pass(2_000, [id], { phase: "computing", progress: i });
  };

  it("hangs after three times the usual length of its phase, not less than the least and not more than the most", () => {
    const watcher = new Watcher(["p0"]);
    usual(watcher, "p0");
    expect(watcher.pass(18_000, ["p0"], { phase: "computing", progress: 99 })).toEqual([]);
    expect(watcher.pass(4_000, ["p0"], { phase: "computing", progress: 99 })).toEqual(["p0 hung hang"]);
    const slow = new Watcher(["p0"]);
    expect(slow.pass(45_000, ["p0"], { phase: "computing", progress: 99 })).toEqual([]);
    expect(slow.pass(2_000, ["p0"], { phase: "computing", progress: 99 })).toEqual(["p0 hung hang"]);
  });

  it("recovers when it moves, and is said to hang again when it has not moved for the whole time again", () => {
    const watcher = new Watcher(["p0"]);
    usual(watcher, "p0");
    watcher.pass(43_000, ["p0"], { phase: "computing", progress: 99 });
    expect(watcher.said).toEqual(["p0 hung hang", "p0 hung hang"]);
    expect(watcher.pass(1_000, ["p0"], { phase: "computing", progress: 100 })).toEqual(["p0 recover hang"]);
  });

  it("may load, build, compile or initialise for ten minutes, and rest for ever", () => {
    for (const phase of ["loading", "building", "compiling", "initializing"]) {
      const watcher = new Watcher(["r0"]);
      expect(watcher.pass(599_000, ["r0"], { phase }), phase).toEqual([]);
      expect(watcher.pass(3_000, ["r0"], { phase }), phase).toEqual(["r0 hung hang"]);
    }
    expect(new Watcher(["r0"]).pass(2_000_000, ["r0"])).toEqual([]);
  });

  it("and crashes while it compiles is seen in seconds, like any other", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(3_000, ["p0"], { phase: "compiling" });
    expect(watcher.pass(5_000)).toEqual(["p0 suspect silence"]);
  });

  it("hangs in rest too when its main loop does not turn, until it turns again: with nothing to do there is no progress to wait for", () => {
    const watcher = new Watcher(["r0"]);
    watcher.pass(3_000, ["r0"]);
    const stand = (fromSecond: number, toSecond: number): void => {
      for (let second = fromSecond; second <= toSecond; second++)
        watcher.pass(1_000, ["r0"], { loopLagMs: second * 1_000 });
    };
    stand(1, 19);
    expect(watcher.said).toEqual([]);
    stand(20, 22);
    expect(watcher.said).toEqual(["r0 hung hang"]);
    expect(watcher.pass(1_000, ["r0"], { loopLagMs: 0 })).toEqual(["r0 recover hang"]);
    expect(watcher.pass(60_000, ["r0"], { loopLagMs: 0 })).toEqual([]);
  });
});

describe("an engine that fails its health checks", () => {
  it("makes a suspect at the first, is well again with one success, and is out at the threshold", () => {
    const watcher = new Watcher(["r0"]);
    watcher.pass(2_000, ["r0"]);
    expect(watcher.pass(1_000, ["r0"], { failures: 1 })).toEqual(["r0 suspect engine"]);
    expect(watcher.pass(1_000, ["r0"], { failures: 2 })).toEqual([]);
    expect(watcher.pass(1_000, ["r0"], { failures: 0 })).toEqual(["r0 recover engine"]);
    watcher.nowMs += 800;
    watcher.beat("r0", { failures: 3 });
    expect(watcher.look()).toEqual(["r0 dead engine"]);
    expect(watcher.last.verdicts[0]?.evidence).toBe("its engine failed 3 health checks in a row");
  });
});

describe("a bad view", () => {
  const ids = ["p0", "p1", "r0", "r1", "r2", "r3"];

  it("evicts nobody while many fall silent together, and says so; a real death is found a time-out later", () => {
    const watcher = new Watcher(ids);
    watcher.pass(5_000, ids);
    const dead = ["r0", "r1", "r2"];
    for (const id of dead) watcher.detector.disconnected(id, "i1", watcher.nowMs);
    watcher.pass(4_000, ["p0", "p1", "r3"]);
    expect(watcher.alarms).toEqual([expect.stringMatching(/^3 of 6 members fell silent within 10000 ms/)]);
    expect(watcher.detector.isBraked(watcher.nowMs)).toBe(true);
    watcher.pass(12_000, ["p0", "p1", "r3"]);
    expect(watcher.said.filter((line) => line.includes("dead"))).toEqual(dead.map((id) => `${id} dead silence`));
  });

  it("evicts nobody for a silence that was long before it was bad; an engine that fails its checks says so itself", () => {
    const watcher = new Watcher(ids);
    watcher.pass(5_000, ids);
    const gone = (...which: string[]): void => {
      for (const id of which) watcher.detector.disconnected(id, "i1", watcher.nowMs);
    };
    gone("r0");
    watcher.pass(6_000, ["p0", "p1", "r1", "r2", "r3"]);
    gone("r1", "r2");
    expect(watcher.pass(9_600, ["p0", "p1", "r3"])).toEqual(["r1 suspect disconnect", "r2 suspect disconnect"]);
    watcher.beat("p1", { failures: 3 });
    expect(watcher.look()).toEqual(["p1 dead engine"]);
    expect(watcher.pass(600, ["p0", "r3"])).toEqual(["r0 dead silence"]);
  });

  it.each([
    ["has come again as another life", [watchedOf("r0", "i2")]],
    ["is no member any more", []],
  ])("is not seen in who fell silent and %s", (_, instead) => {
    const watcher = new Watcher(ids);
    watcher.pass(5_000, ids);
    for (const id of ["r0", "r1"]) watcher.detector.disconnected(id, "i1", watcher.nowMs);
    watcher.look();
    watcher.members = [...watcher.members.filter(({ id }) => id !== "r0"), ...instead];
    watcher.look();
    watcher.detector.disconnected("r2", "i1", watcher.nowMs);
    watcher.look();
    expect(watcher.alarms).toEqual([]);
  });

  it("is not seen in two silent members of six", () => {
    const watcher = new Watcher(ids);
    watcher.pass(5_000, ids);
    watcher.pass(8_000, ["p0", "p1", "r2", "r3"]);
    expect(watcher.alarms).toEqual([]);
  });

  it("of the watcher's own gives everybody every wait in full, and evicts nobody for a time-out", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(3_000, ["p0"]);
    watcher.nowMs += 60_000;
    watcher.detector.blinded(watcher.nowMs);
    expect(watcher.detector.isBraked(watcher.nowMs + 9_999)).toBe(true);
    expect(watcher.detector.isBraked(watcher.nowMs + 10_000)).toBe(false);
    expect(watcher.pass(4_200)).toEqual([]);
    expect(watcher.pass(600)).toEqual(["p0 suspect silence"]);
    expect(watcher.pass(5_000)).toEqual([]);
  });

  it("of the watcher's own makes a data path that failed before it count anew", () => {
    const all = ["p0", "p1", "p2"];
    const watcher = new Watcher(all);
    const complain = (): void => watcher.detector.blamed("p0", ["p1"], watcher.nowMs);
    for (let i = 0; i < 4; i++) {
      watcher.pass(1_000, all);
      complain();
    }
    watcher.detector.blinded(watcher.nowMs);
    watcher.pass(9_000, all);
    complain();
    expect(watcher.pass(2_000, all)).toEqual([]);
  });

  it("of the watcher's own counts for nobody's silence, however often it comes, and forgives nothing", () => {
    const watcher = new Watcher(["p0", "p1"]);
    watcher.pass(3_000, ["p0", "p1"]);
    const pausedFor = (ms: number): void => {
      watcher.nowMs += ms;
      watcher.detector.stoodStill(ms, watcher.nowMs);
      expect(watcher.look()).toEqual([]);
    };
    pausedFor(60_000);
    expect(watcher.pass(4_200, ["p1"])).toEqual([]);
    expect(watcher.pass(600, ["p1"])).toEqual(["p0 suspect silence"]);
    for (let i = 0; i < 24; i++) {
      pausedFor(3_000);
      expect(watcher.pass(1_000, ["p1"])).toEqual([]);
    }
    expect(watcher.pass(2_000, ["p1"])).toEqual(["p0 dead silence"]);
  });

  it("stretches every wait by the local health", () => {
    const watcher = new Watcher(["p0"]);
    watcher.pass(20_000, ["p0"]);
    watcher.factor = 2;
    expect(watcher.pass(7_800)).toEqual([]);
    expect(watcher.pass(2_200)).toEqual(["p0 suspect silence"]);
    watcher.detector.disconnected("p0", "i1", watcher.nowMs);
    expect(watcher.pass(9_800)).toEqual([]);
    expect(watcher.pass(600)).toEqual(["p0 dead silence"]);
  });
});

describe("who is no member any more", () => {
  it("is forgotten, with everything that was held against it", () => {
    const watcher = new Watcher(["p0", "p1"]);
    watcher.pass(3_000, ["p0", "p1"]);
    watcher.detector.disconnected("p1", "i1", watcher.nowMs);
    watcher.members = [watchedOf("p0")];
    watcher.look();
    watcher.members = [watchedOf("p0"), watchedOf("p1")];
    expect(watcher.look()).toEqual([]);
  });
});

describe("the highest level of suspicion", () => {
  it("is that of the most silent one that was heard, and 0 without one", () => {
    const watcher = new Watcher(["p0", "p1", "p2"]);
    watcher.nowMs = 60_000;
    expect(watcher.detector.highestPhi(watcher.nowMs, 1)).toBe(0);
    watcher.beat("p0", { seq: 0 });
    watcher.nowMs += 4_000;
    watcher.beat("p1");
    const early = watcher.detector.highestPhi(watcher.nowMs, 1);
    expect(early).toBeGreaterThan(0);
    expect(watcher.detector.highestPhi(watcher.nowMs + 2_000, 1)).toBeGreaterThan(8);
    expect(watcher.detector.highestPhi(watcher.nowMs, 2)).toBeLessThan(early);
  });
});
