import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import type { ReportOf } from "../src/controller/events.ts";
import { makeReplica } from "../src/controller/fleet/plan-fleet.ts";
import { applyExited, applyLeft, applyRegister, evictMember } from "../src/controller/members/apply-membership.ts";
import { planReadmission } from "../src/controller/members/plan-readmission.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, linesOf, reportFrom, working } from "./states.ts";

function register(
  from: string,
  incarnation: string,
  patch: Partial<ReportOf<"replica.register">["body"]> = {},
): ReportOf<"replica.register"> {
  const body = { role: "rollout" as const, host: "h", pid: 7, engineBuild: "b", ...patch };
  return { type: "replica.register", atMs: 1_000, from, role: body.role, incarnation, body };
}

const leases = {
  "1-1": { holder: "r0", items: [{ purpose: "train" as const, step: 4, index: 0, attempt: 0 }], dueAtMs: 9_000 },
};
const leased = (): ControllerState =>
  working({ patch: { leases, groups: { 4: { queue: [], receipts: {}, quarantined: [] } } } });

describe("a replica without a node that ends and starts again and again", () => {
  const at = (state: ControllerState, seconds: number): ControllerState => ({ ...state, nowMs: seconds * 1_000 });
  /** Its next process registers. */
  const starts = (state: ControllerState, life: number) =>
    applyRegister(state, register("r0", `l${life}`, { pid: life }));
  /** So many starts, one a second, each in the place of the one before. */
  const afterStarts = (count: number, state = working()): ReturnType<typeof starts> =>
    Array.from({ length: count }, (_, i) => i + 1).reduce((last, life) => starts(at(last.state, life), life), {
      state,
      effects: [],
    } as ReturnType<typeof starts>);

  it("comes back at once five times, and then waits, for longer each time, and the operator hears why", () => {
    const fifth = afterStarts(5);
    expect(fifth.state.members.r0?.incarnation).toBe("l5");
    const sixth = starts(at(fifth.state, 6), 6);
    expect(sixth.state.members.r0).toBeUndefined();
    expect(sixth.state.waiting.r0).toMatchObject({ incarnation: "l6" });
    const [alarm] = bodiesOf(sixth.effects, "alarm.raised");
    expect(alarm).toMatchObject({ alarm: "flapping" });
    expect(alarm?.detail).toContain("r0 ended and started again more than 5 times within ten minutes");
    expect(alarm?.detail).toContain("it is back as process 6 of h and is admitted in");
    const pauseOf = (state: ControllerState): number => (state.evictions.r0?.untilMs ?? 0) - state.nowMs;
    const first = pauseOf(sixth.state);
    // It ends while it waits, and is back: it waits for the same moment, and nothing is said again.
    const again = starts(at(sixth.state, 6.05), 7);
    expect(again.state.evictions).toEqual(sixth.state.evictions);
    expect(linesOf(again.effects)).toEqual([]);
    const back = planReadmission(at(again.state, 6 + first / 1_000));
    expect(back?.state.members.r0?.incarnation).toBe("l7");
    const next = starts(at(back?.state ?? again.state, 7 + first / 1_000), 8);
    expect(pauseOf(next.state)).toBe(2 * first);
  });

  it("counts the lives that leave by themselves, too", () => {
    let state = working();
    for (let life = 1; life <= 6; life++) {
      state = starts(at(state, life), life).state;
      const { incarnation = "" } = state.members.r0 ?? {};
      const left = { type: "replica.left" as const, atMs: 0, from: "r0", role: "rollout" as const, incarnation };
      if (life < 6) state = applyLeft(at(state, life + 0.5), { ...left, body: { reason: "the engine failed" } }).state;
    }
    expect(state.members.r0).toBeUndefined();
    expect(state.waiting.r0?.incarnation).toBe("l6");
  });

  it("is trusted again when it has run for ten minutes", () => {
    const fifth = afterStarts(5);
    expect(starts(at(fifth.state, 700), 6).state.members.r0?.incarnation).toBe("l6");
  });

  it("does not count where a supervisor of the job sees the ends, before the next life or after it", () => {
    let state = working();
    for (let life = 1; life <= 20; life++) {
      state = starts(at(state, life), life).state;
      const ended = {
        type: "process.exited" as const,
        atMs: 0,
        from: "s",
        role: "node" as const,
        incarnation: "s1",
      };
      state = applyExited(state, {
        ...ended,
        body: { id: "r0", host: "h", pid: life - 1, code: 1, signal: null },
      }).state;
    }
    expect(state.members.r0?.incarnation).toBe("l20");
  });

  it("does not count where a node runs it, nor lives of one process", () => {
    const { state: made, id } = makeReplica(working(), "rollout", { node: "n0" });
    const { [id]: replica, ...others } = made.fleet.replicas;
    const replicas = { ...others, ...(replica ? { r0: replica } : {}) };
    const placed = { ...made, fleet: { ...made.fleet, replicas } };
    expect(afterStarts(20, placed).state.members.r0?.incarnation).toBe("l20");
    let state = working();
    for (let life = 1; life <= 20; life++) state = applyRegister(at(state, life), register("r0", `l${life}`)).state;
    expect(state.members.r0?.incarnation).toBe("l20");
  });
});

describe("a replica that registers", () => {
  it("is admitted, last in the order of arrival, holding nothing", () => {
    const { state, effects } = applyRegister(working(), register("r5", "x"));
    expect(linesOf(effects)).toEqual(["admit r5", "! member.joined"]);
    expect(state.members.r5).toMatchObject({
      joinedSeq: 4,
      held: null,
      order: null,
      health: "healthy",
      incarnation: "x",
      ...{ retryAtMs: 0, unanswered: 0, hungAtMs: null, recoveries: [] },
    });
    expect(state.joins).toBe(4);
  });

  it("again as the same life is told again and changes nothing", () => {
    const { state } = control(working(), register("r5", "x"));
    const again = control(state, register("r5", "x"));
    expect(again.state.members).toBe(state.members);
    expect(linesOf(again.effects)).toEqual(["admit r5"]);
  });

  it("as a new life retires the old one and what it had", () => {
    const { state, effects } = applyRegister(leased(), register("r0", "new"));
    expect(linesOf(effects)).toEqual([
      "! member.died",
      "! groups.released",
      "r0 replica.fenced",
      "admit r0",
      "! member.joined",
    ]);
    expect(state.members.r0).toMatchObject({ incarnation: "new", joinedSeq: 4, held: null });
    expect(state.leases).toEqual({});
    expect(state.groups[4]?.queue).toEqual([{ index: 0, attempt: 1, last: "r0" }]);
  });

  it("late as a life that is over does not come back, and does not push out the new one", () => {
    const { state } = applyRegister(working(), register("r0", "new"));
    const late = applyRegister(state, register("r0", "r0-i3"));
    expect(late.state).toBe(state);
    expect(linesOf(late.effects)).toEqual(["r0 replica.fenced"]);
    const died = applyLeft(state, { ...reportFrom(state, "r0", { kind: "replica.left", body: { reason: "" } }) });
    expect(linesOf(applyRegister(died.state, register("r0", "new")).effects)).toEqual(["r0 replica.fenced"]);
  });

  it("tells the life that it retires, which may be the one that lives when the words of a dead one came late", () => {
    const { effects } = applyRegister(working(), register("r0", "dead before it was heard"));
    const evidence = "a new incarnation registered: process 7 of h";
    expect(bodiesOf(effects, "member.died")).toMatchObject([{ evidence, by: "replaced", silentMs: 0 }]);
    const told = { kind: "replica.fenced", to: "r0", incarnation: "r0-i3" };
    expect(effects).toContainEqual(expect.objectContaining(told));
  });

  it("of another engine build is refused with both builds in the reason; checkpoint actors have none", () => {
    const { state, effects } = applyRegister(working(), register("r5", "x", { engineBuild: "c" }));
    expect(state.members.r5).toBeUndefined();
    expect(bodiesOf(effects, "replica.refused")[0]?.reason).toMatch(
      /"c" differs from "b" of the job's other rollout replicas/,
    );
    expect(
      applyRegister(working(), register("c5", "x", { role: "checkpoint", engineBuild: "" })).state.members.c5,
    ).toBeDefined();
  });

  it("first with an engine sets the build of its role, and the other role may have another one", () => {
    const { samplerBuild: _, ...none } = working({ members: [], patch: { engineBuild: null } });
    const first = applyRegister(none, register("c0", "x", { role: "checkpoint", engineBuild: "" })).state;
    expect([first.engineBuild, first.samplerBuild]).toEqual([null, undefined]);
    const second = applyRegister(first, register("r0", "y", { engineBuild: "d" })).state;
    expect([second.engineBuild, second.samplerBuild]).toEqual([null, "d"]);
    const plain = applyRegister(first, register("r0", "y", { engineBuild: "" })).state;
    expect(plain.samplerBuild).toBeUndefined();
    expect(applyRegister(plain, register("r1", "w", { engineBuild: "e" })).state.samplerBuild).toBe("e");
    const third = applyRegister(second, register("p0", "z", { role: "policy", engineBuild: "e" })).state;
    expect([third.engineBuild, third.samplerBuild]).toEqual(["e", "d"]);
    const { effects } = applyRegister(third, register("r1", "w", { engineBuild: "e" }));
    expect(bodiesOf(effects, "replica.refused")[0]?.reason).toMatch(/"e" differs from "d" of the job's other rollout/);
  });

  it("to ask whether it still is a member, and is none, is told to come back, however long ago its end was", () => {
    const { state, effects } = applyRegister(working(), register("r5", "long forgotten", { again: true }));
    expect(state.members.r5).toBeUndefined();
    expect(linesOf(effects)).toEqual(["r5 replica.fenced"]);
  });

  it("from a node on which it has no place any more is refused, and whoever has the place stays", () => {
    const placed = working();
    const r0 = makeReplica(placed, "rollout", { node: "node-2" });
    const state = {
      ...r0.state,
      fleet: { ...r0.state.fleet, replicas: { r0: r0.state.fleet.replicas[r0.id] as never } },
    };
    const { state: after, effects } = applyRegister(state, register("r0", "x", { node: "node-1" }));
    expect(after).toBe(state);
    expect(bodiesOf(effects, "replica.refused")).toEqual([
      { reason: "r0 has its place on node-2 now, and this process was started by node-1" },
    ]);
    expect(applyRegister(state, register("r0", "y", { node: "node-2" })).state.members.r0?.incarnation).toBe("y");
  });

  it("when the job is ending is refused", () => {
    const ending = { outcome: "done", reason: "all steps are committed", announced: false } as const;
    expect(linesOf(applyRegister(working({ patch: { ending } }), register("r5", "x")).effects)).toEqual([
      "r5 replica.refused",
    ]);
  });
});

describe("the end of a process", () => {
  const exited = (patch: object = {}) =>
    reportFrom(working(), "node", {
      kind: "process.exited",
      body: { id: "r0", host: "h", pid: 3, code: null, signal: "SIGKILL", ...patch },
    });

  it("is evidence that needs no time-out", () => {
    const { state, effects } = applyExited(working(), exited());
    expect(state.members.r0).toBeUndefined();
    expect(bodiesOf(effects, "member.died")).toMatchObject([
      { evidence: "process ended with SIGKILL", by: "exit", silentMs: 0 },
    ]);
  });

  it("of a replica of several counts where it is its first one, which speaks for it", () => {
    expect(applyExited(working(), exited({ rank: 0 })).state.members.r0).toBeUndefined();
    expect(applyExited(working(), exited({ rank: 1 })).state.members.r0).toBeDefined();
  });

  it.each([{ pid: 4 }, { host: "g" }, { id: "r9" }])(
    "counts only for the very process that registered: %j",
    (patch) => {
      const state = working();
      expect(applyExited(state, exited(patch))).toEqual({ state, effects: [] });
    },
  );
});

describe("a member that goes", () => {
  it("by itself is announced as left; a word of another life is not", () => {
    const state = working();
    const event = reportFrom(state, "p1", { kind: "replica.left", body: { reason: "asked" } });
    expect(linesOf(applyLeft(state, event).effects)).toEqual(["! member.left"]);
    expect(applyLeft(state, { ...event, incarnation: "old" })).toEqual({ state, effects: [] });
  });

  it("is remembered among the last 256", () => {
    const gone = Array.from({ length: 256 }, (_, i) => `old-${i}`);
    const state = working({ patch: { gone } });
    const after = evictMember(state, state.members.r0 as never, { evidence: "hangs", by: "hang", silentMs: 0 }).state
      .gone;
    expect(after).toHaveLength(256);
    expect([after[0], after.at(-1)]).toEqual(["old-1", "r0-i3"]);
  });
});
