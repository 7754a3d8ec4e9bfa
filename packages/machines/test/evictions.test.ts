import { describe, expect, it } from "vitest";
import { applyEnded, keepWaiting, mustWait, withEviction } from "../src/controller/members/evictions.ts";
import { forgetSeenEnd, holdRestarts, noteUnseenEnd } from "../src/controller/members/restarts.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, memberOf, planWith, working } from "./states.ts";

const hourMs = 3_600_000;
const at = (state: ControllerState, nowMs: number): ControllerState => ({ ...state, nowMs });
const body = { role: "rollout", host: "h", pid: 7, engineBuild: "b" } as const;
const life = { id: "r9", host: "h", pid: 7 };
/** Who is not the process that ended: another one, one of another host, one of another replica. */
const others = [
  { ...life, pid: 8 },
  { ...life, host: "g" },
  { ...life, id: "r8" },
];

describe("the end of a process that is certain", () => {
  const state = working({ patch: { waiting: { r9: { incarnation: "i9", body } } } });

  it("ends its own wait to be let in again, and nobody else's", () => {
    expect(applyEnded(state, life).waiting).toEqual({});
    for (const other of others) expect(applyEnded(state, other).waiting).toHaveProperty("r9");
  });

  it("ends the pause of its eviction, and nobody else's", () => {
    const out = withEviction(working(), life);
    expect([mustWait(out, "r9"), mustWait(out, "r8")]).toEqual([true, false]);
    expect(mustWait(applyEnded(out, life), "r9")).toBe(false);
    for (const other of others) expect(applyEnded(out, other)).toEqual(out);
  });
});

describe("the pause of an eviction", () => {
  const plan = planWith({ health: { readmitAfterMs: 5_000, progressMs: 300_000 } });
  /** Evicted at these times. */
  const outAt = (...times: readonly number[]): ControllerState =>
    times.reduce((state, nowMs) => withEviction(at(state, nowMs), life), working({ plan }));
  const pauseOf = (state: ControllerState): number => (state.evictions.r9?.untilMs ?? 0) - state.nowMs;

  it("doubles with each one within an hour, up to ten minutes", () => {
    expect(pauseOf(outAt(0))).toBe(10_000);
    expect(pauseOf(outAt(0, 1))).toBe(20_000);
    expect(pauseOf(outAt(0, hourMs - 1))).toBe(20_000);
    expect(pauseOf(outAt(0, hourMs))).toBe(10_000);
    expect(pauseOf(outAt(...Array.from({ length: 40 }, (_, i) => i)))).toBe(600_000);
    expect(outAt(...Array.from({ length: 40 }, (_, i) => i)).evictions.r9?.times).toHaveLength(16);
  });

  it("is over to the millisecond", () => {
    const out = outAt(0);
    expect([9_999, 10_000].map((nowMs) => mustWait({ ...out, nowMs }, "r9"))).toEqual([true, false]);
  });

  it("is told the operator from the second time on, once for all lives that wait for it", () => {
    const told = (state: ControllerState, incarnation: string) => {
      const { effects, state: next } = keepWaiting(state, { id: "r9", incarnation }, body);
      return { next, details: bodiesOf(effects, "alarm.raised").map(({ detail }) => detail) };
    };
    expect(told(outAt(0), "i1").details).toEqual([]);
    const second = told(outAt(0, 1), "i1");
    expect(second.details).toEqual(["r9 was evicted 2 times within an hour; it is admitted in 20000 ms"]);
    expect(told(second.next, "i1")).toEqual({ next: second.next, details: [] });
    expect(told(second.next, "i2").details).toEqual([]);
  });

  it("of the newest 256 replicas is remembered", () => {
    const ids = Array.from({ length: 300 }, (_, i) => `r${i}`);
    const out = ids.reduce((state, id) => withEviction(state, { ...life, id }), working());
    expect(Object.keys(out.evictions)).toEqual(ids.slice(-256));
  });
});

describe("a replica without a node that ends unseen, again and again,", () => {
  const member = memberOf("r9", 1, { pid: 7 });
  /** Ended at these times. */
  const endedAt = (...times: readonly number[]): ControllerState =>
    times.reduce((state, nowMs) => noteUnseenEnd(at(state, nowMs), member), working());
  const hold = (state: ControllerState) => holdRestarts(state, { id: "r9", incarnation: "i9" }, { host: "h", pid: 8 });
  const alarmsOf = (state: ControllerState): number => bodiesOf(hold(state).effects, "alarm.raised").length;

  it("comes back at once five times within ten minutes, and waits after the sixth", () => {
    expect(hold(endedAt(1, 2, 3, 4, 5))).toEqual({ state: endedAt(1, 2, 3, 4, 5), effects: [] });
    const sixth = hold(endedAt(1, 2, 3, 4, 5, 6));
    expect(mustWait(sixth.state, "r9")).toBe(true);
    expect(bodiesOf(sixth.effects, "alarm.raised")[0]?.detail).toMatch(/more than 5 times .* back as process 8 of h /);
    expect(alarmsOf(sixth.state), "it waits already").toBe(0);
    expect(endedAt(1, 2, 3, 4, 5, 6, 7).restarts?.r9?.times, "no more is kept than decides it").toHaveLength(6);
    expect(alarmsOf(endedAt(1, 2, 3, 4, 5, 600_001))).toBe(0);
    expect(alarmsOf(endedAt(1, 2, 3, 4, 5, 600_000))).toBe(1);
  });

  it("is not held for an end that its node saw after all, and an end of another process takes none back", () => {
    const six = endedAt(1, 2, 3, 4, 5, 6);
    expect(alarmsOf(forgetSeenEnd(six, life))).toBe(0);
    // The process of that end is known to have ended once: a second word of it takes no other end back.
    expect(forgetSeenEnd(forgetSeenEnd(six, life), life)).toEqual(forgetSeenEnd(six, life));
    for (const other of others) expect(forgetSeenEnd(six, other)).toEqual(six);
    expect(forgetSeenEnd(endedAt(1), life).restarts).toEqual({});
    expect(forgetSeenEnd(endedAt(1, 2), life).restarts?.r9).toEqual({ times: [1], host: "h", pid: 0 });
    expect(forgetSeenEnd(endedAt(1, 2, 3), life).restarts?.r9?.times).toEqual([1, 2]);
    expect(forgetSeenEnd(working(), life)).toEqual(working());
  });

  it("is one of 256 that are remembered; who has a place on a node is not", () => {
    const ids = Array.from({ length: 300 }, (_, i) => `r${i}`);
    const out = ids.reduce((state, id) => noteUnseenEnd(state, { ...member, id }), working());
    expect(Object.keys(out.restarts ?? {})).toEqual(ids.slice(-256));
    expect(noteUnseenEnd(working(), { ...member, role: "node" })).toEqual(working());
  });
});
