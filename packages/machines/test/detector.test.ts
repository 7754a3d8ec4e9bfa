import { applyBeat, applyBlindness, type DetectorState, initialDetector, planVerdicts } from "@muster/machines";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

const timing = { suspectAfterMs: 3_000, deadAfterMs: 10_000 };
const members = [{ id: "p0", incarnation: "i1" }];
const beat = (state: DetectorState, seq: number, atMs: number, incarnation = "i1"): DetectorState =>
  applyBeat(state, { id: "p0", incarnation, seq }, atMs);

/** Looks at a time. */
const look = (state: DetectorState, nowMs: number, watched = members) => {
  const { state: after, verdicts } = planVerdicts(state, watched, { ...timing, nowMs });
  return { state: after, verdicts, types: verdicts.map(({ type }) => type) };
};

describe("the failure detector", () => {
  it("suspects after silence, once, and recovers when beats come back", () => {
    const heard = look(beat(initialDetector, 1, 0), 2_999);
    expect(heard.types).toEqual([]);
    const suspected = look(heard.state, 3_000);
    expect(suspected.verdicts).toEqual([
      { type: "verdict.suspect", id: "p0", incarnation: "i1", evidence: "no heartbeat for 3000 ms" },
    ]);
    expect(look(suspected.state, 4_000).types).toEqual([]);
    const back = look(beat(suspected.state, 2, 4_100), 4_200);
    expect(back.types).toEqual(["verdict.recover"]);
    expect(look(back.state, 4_300).types).toEqual([]);
  });

  it("declares death after longer silence, with or without a suspicion before", () => {
    expect(look(beat(initialDetector, 1, 0), 10_000).types).toEqual(["verdict.dead"]);
  });

  it("does not suspect a member that it never heard: it may still be starting; it is dead after the full time-out", () => {
    const first = look(initialDetector, 50_000);
    expect(first.types).toEqual([]);
    expect(look(first.state, 59_999).types).toEqual([]);
    expect(look(first.state, 60_000).types).toEqual(["verdict.dead"]);
  });

  it("counts neither repeated nor overtaken beats", () => {
    const state = beat(initialDetector, 5, 0);
    expect(beat(state, 5, 9_000)).toBe(state);
    expect(beat(state, 4, 9_000)).toBe(state);
    expect(look(state, 10_000).types).toEqual(["verdict.dead"]);
  });

  it("is not misled by beats of a former life: they neither revive it nor hide the silence of the next", () => {
    const next = [{ id: "p0", incarnation: "i2" }];
    let state = look(beat(initialDetector, 1, 0), 100, next).state;
    const types: string[] = [];
    for (let atMs = 200; atMs <= 12_000; atMs += 200) {
      const found = look(beat(state, atMs, atMs), atMs, next);
      state = found.state;
      types.push(...found.types);
    }
    expect(new Set(types)).toEqual(new Set(["verdict.dead"]));
  });

  it("starts anew with a new life", () => {
    const suspected = look(beat(initialDetector, 9, 0), 5_000).state;
    const replaced = look(suspected, 6_000, [{ id: "p0", incarnation: "i2" }]);
    expect(replaced.types).toEqual([]);
    expect(look(beat(replaced.state, 1, 6_100, "i2"), 6_200, [{ id: "p0", incarnation: "i2" }]).types).toEqual([]);
  });

  it("accuses nobody while its own view was bad, and gives everybody a full time-out after that", () => {
    const blind = applyBlindness(beat(initialDetector, 1, 0), 20_000, timing);
    expect(look(blind, 20_001).types).toEqual([]);
    expect(look(blind, 22_999).types).toEqual([]);
    expect(look(blind, 23_000).types).toEqual(["verdict.suspect"]);
    expect(look(blind, 29_999).types).toEqual(["verdict.suspect"]);
    expect(look(blind, 30_000).types).toEqual(["verdict.dead"]);
  });

  it("forgets who is no member any more", () => {
    expect(look(beat(initialDetector, 1, 0), 100, []).state.sightings).toEqual({});
  });

  it("never accuses a member whose beats arrive more often than the time-out, whatever else arrives", () => {
    const noise = fc.record({ seq: fc.nat(50), old: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(fc.record({ gapMs: fc.integer({ min: 1, max: 2_999 }), noise: fc.array(noise) })),
        (rounds) => {
          let state = look(initialDetector, 0).state;
          let nowMs = 0;
          rounds.forEach(({ gapMs, noise: others }, i) => {
            nowMs += gapMs;
            expect(look(state, nowMs).types).toEqual([]);
            state = beat(state, 100 + i, nowMs);
            for (const { seq, old } of others) state = beat(state, seq, nowMs, old ? "i0" : "i1");
          });
        },
      ),
      { seed: 505 },
    );
  });
});
