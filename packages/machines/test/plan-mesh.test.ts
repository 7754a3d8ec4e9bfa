import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { planJoinWindow, planMesh, rankMembers } from "../src/controller/step/plan-mesh.ts";
import { bodiesOf, linesOf, memberOf, planWith, working } from "./states.ts";

describe("ranks", () => {
  it("of members that stay keep their order, and joiners follow by arrival", () => {
    const eligible = [memberOf("p9", 9), memberOf("p1", 1), memberOf("p3", 3), memberOf("p7", 7)];
    expect(rankMembers(["p3", "p2", "p1"], eligible).map(({ id }) => id)).toEqual(["p3", "p1", "p7", "p9"]);
  });

  it("are the same in whatever order the members are looked at, and stable from epoch to epoch", () => {
    const ids = Array.from({ length: 8 }, (_, i) => `p${i}`);
    fc.assert(
      fc.property(fc.shuffledSubarray(ids), fc.shuffledSubarray(ids), fc.nat(7), (previous, alive, turn) => {
        const members = alive.map((id) => memberOf(id, Number(id.slice(1)) + 1));
        const ranks = rankMembers(previous, members).map(({ id }) => id);
        const turned = [...members.slice(turn), ...members.slice(0, turn)];
        expect(rankMembers(previous, turned).map(({ id }) => id)).toEqual(ranks);
        const stayed = previous.filter((id) => alive.includes(id));
        expect(ranks.slice(0, stayed.length)).toEqual(stayed);
        expect(rankMembers(ranks, members).map(({ id }) => id)).toEqual(ranks);
      }),
      { seed: 77 },
    );
  });
});

describe("the first mesh", () => {
  const first = (members: string[]) => {
    const state = working({ members });
    return planMesh({ ...state, mesh: { ...state.mesh, epoch: 0, members: [], state: "none", built: [] } });
  };

  it("waits for the replicas that the job begins with", () => {
    expect(first(["p0", "p1", "r0"])).toBeNull();
    expect(first(["p0", "r0", "r1"])).toBeNull();
    expect(linesOf(first(["p0", "p1", "r0", "r1"])?.effects ?? [])).toEqual(["p0 mesh.build", "p1 mesh.build"]);
  });

  it("has every member in the order of arrival, by its incarnation", () => {
    const change = first(["p1", "r0", "p0", "r1"]);
    expect(bodiesOf(change?.effects ?? [], "mesh.build")[0]).toEqual({
      epoch: 1,
      members: [
        { id: "p1", incarnation: "p1-i1" },
        { id: "p0", incarnation: "p0-i3" },
      ],
    });
  });
});

describe("a mesh", () => {
  const recoveries = Array.from({ length: 11 }, (_, i) => i);

  it("has no first rank that is suspected again and again, but is not built anew for that", () => {
    const state = withMember(working({ members: ["p0", "p1", "r0"] }), "p0", { recoveries });
    expect(planMesh(state)).toBeNull();
    const change = planMesh({ ...state, mesh: { ...state.mesh, state: "broken", dueAtMs: 0 } });
    expect(change?.state.mesh.members).toEqual(["p1", "p0"]);
    const built = change && planMesh({ ...change.state, mesh: { ...change.state.mesh, state: "ready" } });
    expect(built).toBeNull();
  });

  it("of one member says no place: nobody looks for it", () => {
    const state = working({ members: ["p0", "r0"] });
    const change = planMesh({ ...state, mesh: { ...state.mesh, members: [] } });
    expect(bodiesOf(change?.effects ?? [], "mesh.build")[0]?.members).toEqual([{ id: "p0", incarnation: "p0-i1" }]);
  });

  it("over several hosts says where each member is and serves", () => {
    const state = withMember(working(), "p1", { host: "other", addresses: ["unix:p1", "tcp:10.0.0.2:7"] });
    const change = planMesh({ ...state, mesh: { ...state.mesh, members: [] } });
    expect(bodiesOf(change?.effects ?? [], "mesh.build")[0]?.members).toEqual([
      { id: "p0", incarnation: "p0-i1", place: { host: "h", addresses: ["unix:p0"] } },
      { id: "p1", incarnation: "p1-i2", place: { host: "other", addresses: ["unix:p1", "tcp:10.0.0.2:7"] } },
    ]);
  });

  it("that is whole stays", () => {
    expect(planMesh(working())).toBeNull();
    expect(planMesh(working({ members: ["r0", "p0", "p1"] })), "whoever arrived last").toBeNull();
    const state = working();
    expect(planMesh({ ...state, mesh: { ...state.mesh, state: "building", dueAtMs: 2_000 } })).toBeNull();
  });

  it("takes a joiner in only once it holds the committed version", () => {
    const joiner = memberOf("p5", 9);
    const state = working();
    const waiting = { ...state, members: { ...state.members, p5: joiner } };
    expect(planMesh(waiting)).toBeNull();
    const grown = planMesh(withMember(waiting, "p5", { held: { lineage: 0, version: 3 } }));
    expect(grown?.state.mesh).toMatchObject({ epoch: 3, members: ["p0", "p1", "p5"], state: "building", built: [] });
  });

  it("lets a member go that drains, and keeps one whose commit is on the way", () => {
    const draining = withMember(working(), "p0", { health: "draining" });
    expect(planMesh(draining)?.state.mesh.members).toEqual(["p1"]);
    const order = { kind: "step.apply", lineage: 0, version: 3, dueAtMs: 9_000 } as const;
    const applying = withMember(working(), "p0", { held: { lineage: 0, version: 2 }, order });
    expect(planMesh(applying)).toBeNull();
  });

  it("has 1,024 ranks at most, and 65,536 processes with a shard each: who is beyond them is a spare", () => {
    const ids = Array.from({ length: 1_030 }, (_, i) => `p${i}`);
    const ranksOf = (of: number | null) => {
      const state = working({ members: ids });
      const broken = { ...state, mesh: { ...state.mesh, members: ["p1029"], state: "broken" as const } };
      const patch = of === null ? {} : { ranks: { of, bytes: 1, digest: "d" } };
      return planMesh(withMember(broken, "p7", patch))?.state.mesh.members ?? [];
    };
    expect(ranksOf(null)).toEqual(["p1029", ...ids.slice(0, 1_023)]);
    expect([ranksOf(64), ranksOf(128)].map(({ length }) => length)).toEqual([1_024, 512]);
  });

  it("changes for neither joins nor leaves while a step runs, before there are weights, and at the end", () => {
    const state = withMember(working(), "p0", { health: "draining" });
    expect(planMesh({ ...state, weights: null })).toBeNull();
    expect(planMesh({ ...state, ending: { outcome: "done", reason: "", announced: false } })).toBeNull();
    expect(planMesh({ ...state, step: { ...state.step, state: "running" } })).toBeNull();
  });

  it("that broke is built again under a new epoch even with the same members, after its pause", () => {
    const state = working();
    const broken = { ...state, mesh: { ...state.mesh, state: "broken" as const, dueAtMs: 1_500 } };
    expect(planMesh(broken)).toBeNull();
    expect(planMesh({ ...broken, nowMs: 1_500 })?.state.mesh).toMatchObject({ epoch: 3, members: ["p0", "p1"] });
  });

  it("evicts who has not joined by the deadline, and tells them", () => {
    const state = working();
    const building = { ...state, mesh: { ...state.mesh, state: "building" as const, built: ["p1"], dueAtMs: 1_000 } };
    const change = planMesh(building);
    expect(linesOf(change?.effects ?? [])).toEqual(["! member.died", "p0 replica.fenced"]);
    expect(planMesh(change?.state as ControllerState)?.state.mesh).toMatchObject({ epoch: 3, members: ["p1"] });
  });

  it("is not built without anybody to be in it", () => {
    const state = withMember(withMember(working(), "p0", { held: null }), "p1", { held: null });
    expect(planMesh(state)).toBeNull();
  });

  it("never goes back to an epoch", () => {
    let state = working({ plan: planWith(), members: ["p0", "p1", "p2", "r0"] });
    const epochs: number[] = [];
    for (const id of ["p0", "p2"]) {
      state = planMesh(withMember(state, id, { health: "draining" }))?.state as ControllerState;
      epochs.push(state.mesh.epoch);
    }
    expect(epochs).toEqual([3, 4]);
  });
});

describe("joins", () => {
  const plan = planWith({ timing: { ...planWith().timing, joinMs: 1_000 } });
  const held = { lineage: 0, version: 3 };
  const arrive = (state: ControllerState, id: string, joinedSeq: number): ControllerState => ({
    ...state,
    joins: joinedSeq,
    members: { ...state.members, [id]: memberOf(id, joinedSeq, { held }) },
  });
  const opened = (state: ControllerState): ControllerState => planJoinWindow(state)?.state ?? state;

  it("are gathered from the first one on, so that a hundred within the window are one epoch", () => {
    let state = opened(arrive(working({ plan }), "p2", 4));
    expect(state.mesh.joinDueAtMs).toBe(state.nowMs + 1_000);
    expect(planMesh(state)).toBeNull();
    for (let i = 3; i <= 101; i++) state = opened(arrive({ ...state, nowMs: state.nowMs + 10 }, `p${i}`, i + 2));
    expect(planMesh(state)).toBeNull();
    const change = planMesh({ ...state, nowMs: state.nowMs + 20 });
    expect(change?.state.mesh).toMatchObject({ epoch: 3, joinDueAtMs: null });
    expect(change?.state.mesh.members).toHaveLength(102);
  });

  it("are gathered in a mesh that is the first, and not before it; a window may be as short as a millisecond", () => {
    const windowOf = (epoch: number, joinMs = 1_000, id = "p2") => {
      const state = arrive(working({ plan: { ...plan, timing: { ...plan.timing, joinMs } } }), id, 4);
      return opened({ ...state, mesh: { ...state.mesh, epoch } }).mesh.joinDueAtMs;
    };
    expect([windowOf(0), windowOf(1), windowOf(1, 1), windowOf(1, 0)]).toEqual([null, 2_000, 1_001, null]);
    expect(windowOf(1, 1_000, "r7"), "nobody joins").toBeNull();
  });

  it.each([
    ["still pulls the version", { held: null }, { held }],
    ["is silent for a moment", { health: "suspect" }, { health: "healthy" }],
  ] as const)("wait for one that %s when the window closes, and are one epoch with it", (_, late, there) => {
    const both = arrive(opened(arrive(working({ plan }), "p2", 4)), "p3", 5);
    const closed = withMember({ ...both, nowMs: both.nowMs + 1_000 }, "p2", late);
    expect(planMesh(closed)).toBeNull();
    const change = planMesh(withMember({ ...closed, nowMs: closed.nowMs + 500 }, "p2", there));
    expect(change?.state.mesh).toMatchObject({ epoch: 3, members: ["p0", "p1", "p2", "p3"] });
  });

  it("wait for it no longer than a window more", () => {
    const both = arrive(opened(arrive(working({ plan }), "p2", 4)), "p3", 5);
    const closed = withMember({ ...both, nowMs: both.nowMs + 1_999 }, "p2", { held: null });
    expect(planMesh(closed)).toBeNull();
    expect(planMesh({ ...closed, nowMs: closed.nowMs + 1 })?.state.mesh.members).toEqual(["p0", "p1", "p3"]);
  });

  it.each([
    ["leaves", { health: "draining" }, []],
    ["hangs", { health: "hung" }, []],
    ["is cordoned", { held: null }, ["p2"]],
  ] as const)("do not wait for one that %s", (_, state, cordoned) => {
    const both = arrive(opened(arrive(working({ plan }), "p2", 4)), "p3", 5);
    const closed = withMember({ ...both, nowMs: both.nowMs + 1_000 }, "p2", { held: null, ...state });
    const fleet = { ...closed.fleet, cordoned };
    expect(planMesh({ ...closed, fleet })?.state.mesh.members).toEqual(["p0", "p1", "p3"]);
  });

  it("wait for an epoch that is being built: a hundred that come one by one are the epoch after it", () => {
    const start = working({ plan });
    const building = { ...start.mesh, state: "building" as const, built: ["p0"], dueAtMs: start.nowMs + 10_000 };
    let state = opened(arrive({ ...start, mesh: building }, "p2", 4));
    for (let i = 3; i <= 101; i++) state = opened(arrive({ ...state, nowMs: state.nowMs + 50 }, `p${i}`, i + 2));
    expect(planMesh(state), "however long the first of them has waited").toBeNull();
    const ready = { ...state, mesh: { ...state.mesh, state: "ready" as const } };
    expect(planMesh(ready)?.state.mesh).toMatchObject({ epoch: 3, state: "building" });
    expect(planMesh(ready)?.state.mesh.members).toHaveLength(102);
  });

  it("do not keep those in an epoch that is being built who have not joined it by its deadline", () => {
    const start = working({ plan });
    const building = { ...start.mesh, state: "building" as const, built: ["p0"], dueAtMs: start.nowMs };
    const change = planMesh(opened(arrive({ ...start, mesh: building }, "p2", 4)));
    expect(linesOf(change?.effects ?? [])).toEqual(["! member.died", "p1 replica.fenced"]);
    expect(planMesh(change?.state as ControllerState)?.state.mesh).toMatchObject({ epoch: 3, members: ["p0", "p2"] });
  });

  it("do not keep an epoch that a new life under an old id is no rank of", () => {
    const start = working({ plan });
    const building = { ...start.mesh, state: "building" as const, built: [], dueAtMs: start.nowMs + 10_000 };
    const state = arrive({ ...start, mesh: building }, "p1", 7);
    expect(planMesh(state)?.state.mesh).toMatchObject({ epoch: 3, members: ["p0", "p1"] });
  });

  it("do not wait while a loss asks for a new mesh anyway", () => {
    const state = opened(arrive(working({ plan }), "p2", 4));
    const { p1: _, ...members } = state.members;
    expect(planMesh({ ...state, members })?.state.mesh.members).toEqual(["p0", "p2"]);
  });

  it("leave no window open behind them", () => {
    const state = opened(arrive(working({ plan }), "p2", 4));
    const { p2: _, ...members } = state.members;
    expect(opened({ ...state, members }).mesh.joinDueAtMs).toBeNull();
  });
});

describe("a cordoned policy replica", () => {
  it("is left out of the next mesh, unless there is no other", () => {
    const state = working({});
    const cordoned = (...ids: string[]): ControllerState => ({ ...state, fleet: { ...state.fleet, cordoned: ids } });
    expect(planMesh(cordoned("p0"))?.state.mesh.members).toEqual(["p1"]);
    expect(planMesh(cordoned("p0", "p1"))).toBeNull();
    const all = cordoned("p0", "p1");
    const broken = { ...all, mesh: { ...all.mesh, state: "broken" as const, dueAtMs: 0 } };
    expect(planMesh(broken)?.state.mesh.members).toEqual(["p0", "p1"]);
  });
});
