/** Slow members: named after five slow steps of ten, given less, evicted after twenty at twice the median (semantics 6.10, B4, L8). */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { leaseShareOf, noteGroups, noteStep } from "../src/controller/members/paces.ts";
import { planStragglers } from "../src/controller/members/plan-stragglers.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, linesOf, memberOf, voteFor, working } from "./states.ts";

const trainers = ["p0", "p1", "p2"];
const start = (members: readonly string[] = trainers): ControllerState => working({ members });

/** One committed step in which each trainer took its time. */
function step(state: ControllerState, times: Readonly<Record<string, number>>): ControllerState {
  const votes = Object.fromEntries(
    Object.entries(times).map(([id, computeMs]) => {
      const vote = voteFor(4);
      return [id, { ...vote, stats: { ...zero, ...vote.stats, computeMs } }];
    }),
  );
  return { ...noteStep({ ...state, step: { ...state.step, votes } }), step: { ...state.step, votes: {} } };
}

const zero = { tokens: 1, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, gradNorm: 1, computeMs: 0, reduceMs: 0 };

/** Steps, with the planner after each; everything that it said. */
function run(from: ControllerState, steps: readonly Readonly<Record<string, number>>[]) {
  const said: string[] = [];
  const alarms: string[] = [];
  let state = from;
  for (const times of steps) {
    const change = planStragglers(step(state, times));
    state = change?.state ?? step(state, times);
    said.push(...linesOf(change?.effects ?? []));
    alarms.push(...bodiesOf(change?.effects ?? [], "alarm.raised").map(({ detail }) => detail));
    expect(planStragglers(state)).toBeNull();
  }
  return { state, said, alarms };
}

const steps = (count: number, times: Readonly<Record<string, number>>) => Array.from({ length: count }, () => times);

describe("a trainer that is slower than the others", () => {
  it("is named after five of ten steps, once, and again when it keeps up", () => {
    const slow = { p0: 100, p1: 101, p2: 170 };
    expect(run(start(), steps(4, slow)).alarms).toEqual([]);
    const named = run(start(), steps(9, slow));
    expect(named.alarms).toEqual(["p2 was far slower than the other policy replicas in 5 of the last 10 steps"]);
    const even = { p0: 100, p1: 100, p2: 100 };
    expect(run(named.state, steps(9, even)).alarms, "one late step is left").toEqual([]);
    expect(run(named.state, steps(10, even)).alarms).toEqual(["p2 keeps up again"]);
  });

  it("is evicted after twenty steps at twice the median, and told", () => {
    const lame = { p0: 100, p1: 110, p2: 220 };
    expect(run(start(), steps(19, lame)).said).toEqual(["! alarm.raised"]);
    const { said, state } = run(start(), steps(20, lame));
    expect(said).toEqual(["! alarm.raised", "! member.died", "p2 replica.fenced"]);
    expect(Object.keys(state.members)).toEqual(["p0", "p1"]);
  });

  it("stays when one step of the twenty was better, and when it is a little less than twice as slow", () => {
    const lame = { p0: 100, p1: 100, p2: 250 };
    expect(run(start(), [...steps(19, lame), { ...lame, p2: 199 }, ...steps(19, lame)]).said).toEqual([
      "! alarm.raised",
    ]);
    expect(run(start(), steps(60, { p0: 100, p1: 100, p2: 199 })).said).toEqual(["! alarm.raised"]);
  });

  it("is told from the others by three spreads, at least a fifth of the median each, and twice the median is twice", () => {
    const judged = (...ms: readonly number[]) => {
      const ids = ms.map((_, i) => `p${i}`);
      const after = step(start(ids), Object.fromEntries(ids.map((id, i) => [id, ms[i] ?? 0])));
      return ids.map((id) => after.paces[id]?.steps.at(-1));
    };
    // Spread 20 % of 100, so that 160 is the last even one.
    expect(judged(100, 100, 160)).toEqual(["even", "even", "even"]);
    expect(judged(100, 100, 161)).toEqual(["even", "even", "slow"]);
    expect(judged(100, 100, 199)).toEqual(["even", "even", "slow"]);
    expect(judged(100, 100, 200)).toEqual(["even", "even", "twice"]);
    // Spread 30: among those that differ anyway 190 is even.
    expect(judged(70, 100, 130, 190, 40)).toEqual(["even", "even", "even", "even", "even"]);
    expect(judged(70, 100, 130, 191, 40)).toEqual(["even", "even", "even", "slow", "even"]);
    expect(judged(0, 0, 0)).toEqual(["even", "even", "even"]);
    expect(judged(0.5, 0.5, 1)).toEqual(["even", "even", "twice"]);
    expect(judged(100, 900)).toEqual([undefined, undefined]);
  });

  it("is judged when a step has ended and the job has not", () => {
    const { state } = run(start(), steps(19, { p0: 100, p1: 100, p2: 300 }));
    const last = step(state, { p0: 100, p1: 100, p2: 300 });
    expect(planStragglers(last)?.state.members.p2).toBeUndefined();
    expect(planStragglers({ ...last, step: { ...last.step, state: "running" } })).toBeNull();
    expect(planStragglers({ ...last, ending: { outcome: "done", reason: "", announced: true } })).toBeNull();
  });

  it("is said nothing of when it has gone meanwhile", () => {
    const late = steps(5, { p0: 100, p1: 101, p2: 170 }).reduce(step, start());
    const { p2: _, ...members } = late.members;
    expect(planStragglers(late)?.effects).toHaveLength(1);
    expect(planStragglers({ ...late, members })).toBeNull();
    const reborn = { ...late.members, p2: memberOf("p2", 3, { incarnation: "another" }) };
    expect(planStragglers({ ...late, members: reborn })).toBeNull();
  });

  it("is never evicted from a mesh of two: neither is the measure of the other", () => {
    expect(run(start(["p0", "p1"]), steps(60, { p0: 1, p1: 1_000 })).said).toEqual([]);
  });

  it("begins anew in its next life", () => {
    const { state } = run(start(), steps(19, { p0: 100, p1: 100, p2: 300 }));
    const reborn = { ...state, members: { ...state.members, p2: memberOf("p2", 3, { incarnation: "another" }) } };
    expect(run(reborn, steps(4, { p0: 100, p1: 100, p2: 300 })).said).toEqual([]);
  });
});

describe("trainers of one speed", () => {
  it("are never evicted, whatever the noise below twice the median", () => {
    const noise = fc.array(fc.tuple(fc.integer({ min: 51, max: 100 }), fc.integer({ min: 51, max: 100 })), {
      minLength: 40,
      maxLength: 60,
    });
    fc.assert(
      fc.property(noise, (pairs) => {
        const times = pairs.map(([p0, p1]) => ({ p0, p1, p2: 100 }));
        expect(run(start(), times).said.filter((line) => line !== "! alarm.raised")).toEqual([]);
      }),
    );
  });
});

describe("a sampler that is slower than the others", () => {
  const samplers = (times: readonly number[]): ControllerState =>
    times.reduce(
      (state, ms, i) => noteGroups(state, `r${i}`, { groups: 4, durationMs: 4 * ms }),
      start(["p0", ...times.map((_, i) => `r${i}`)]),
    );
  const shareOf = (state: ControllerState, id: string): number => {
    const member = state.members[id];
    return member ? leaseShareOf(state, member) : Number.NaN;
  };

  it("gets as much less as it is slower than the median, and the fast ones no more than before", () => {
    const state = samplers([10, 10, 40]);
    expect(["r0", "r1", "r2"].map((id) => shareOf(state, id))).toEqual([1, 1, 0.25]);
    expect(shareOf(samplers([5, 10, 10]), "r0")).toBe(1);
  });

  it("is as fast as it was lately: the newest measurement counts for three tenths", () => {
    const once = samplers([10]);
    const twice = noteGroups(once, "r0", { groups: 2, durationMs: 40 });
    expect([once.paces.r0?.msPerGroup, twice.paces.r0?.msPerGroup]).toEqual([10, 13]);
    expect(noteGroups(once, "r0", { groups: 0, durationMs: 40 })).toBe(once);
    expect(noteGroups(once, "r9", { groups: 2, durationMs: 40 })).toBe(once);
    // What was known of an earlier life says nothing of this one.
    const reborn = { ...once, members: { ...once.members, r0: memberOf("r0", 3, { incarnation: "another" }) } };
    expect(noteGroups(reborn, "r0", { groups: 1, durationMs: 40 }).paces.r0?.msPerGroup).toBe(40);
  });

  it("has its whole share where nothing is known of it, and where it takes no time at all", () => {
    expect(shareOf(start(["p0", "r0"]), "r0")).toBe(1);
    expect(shareOf(samplers([0, 10, 10]), "r0")).toBe(1);
    expect(shareOf(samplers([0, 0, 0]), "r0")).toBe(1);
    expect(shareOf(samplers([0.25, 0.25, 1]), "r2")).toBe(0.25);
    const gone = samplers([10, 10, 40]);
    const { r1: _, ...members } = gone.members;
    expect(shareOf({ ...gone, members }, "r2"), "who is gone is no measure").toBe(1);
  });

  it("keeps its pace while trainers are judged, and never gets more than its share among many either", () => {
    const kept = step({ ...samplers([10, 20]), members: { ...start().members, ...samplers([10, 20]).members } }, {});
    expect(Object.keys(kept.paces).sort()).toEqual(["r0", "r1"]);
    const many = samplers([...Array(66).fill(60), 20]);
    expect(shareOf(many, "r66")).toBe(1);
  });

  it("is compared with two others at least", () => {
    expect(shareOf(samplers([10, 40]), "r1")).toBe(1);
  });

  /** So many times, each a quarter longer than the one before. */
  const spread = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => 60 * 1.25 ** i);

  it.each([
    ["as fast as half of them", [...Array(33).fill(20), ...Array(31).fill(60)], 0, 1],
    ["three times as slow as half of them", [...Array(33).fill(20), ...Array(31).fill(60)], 40, 1 / 3],
    ["as slow as most", [...Array(30).fill(20), ...Array(40).fill(60)], 69, 1],
    ["four times as slow, all within a millisecond", [...Array(69).fill(0.1), 0.4], 69, 1 / 4],
    ["as slow as a few more than half of them", [...Array(32).fill(20), ...Array(34).fill(60)], 65, 1],
    ["slower than most, and those like it differ", [...Array(40).fill(20), ...spread(39)], 40, 1 / 3],
    ["as fast as the half that is the faster one", [...Array(32).fill(20), ...Array(32).fill(60)], 63, 1 / 3],
  ])("among many gets its share of the median to within 5 %%: %s", (_, times, which, share) => {
    const found = shareOf(samplers(times), `r${which}`);
    expect(Math.abs(found / share - 1)).toBeLessThan(0.05);
  });

  it("is never evicted: nobody waits for more than its share", () => {
    let state = samplers([10, 10, 1_000]);
    for (let i = 0; i < 40; i++) {
      state = noteStep(state);
      expect(planStragglers(state)).toBeNull();
    }
  });
});
