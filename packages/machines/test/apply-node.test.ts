/** What nodes say of themselves and of the processes of a replica of several: whose word counts, for which life. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import {
  applyAssigned,
  applyProcessEnd,
  applyReady,
  applyRetired,
  applyStarted,
} from "../src/controller/fleet/apply-node.ts";
import { applySigns } from "../src/controller/fleet/apply-signs.ts";
import type { FleetReplica } from "../src/controller/fleet/fleet-state.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { fleetOf, groupOf, replicaOf } from "./fleet-rows.ts";
import { bodiesOf, linesOf, memberOf, reportFrom } from "./states.ts";

const nodes = { n0: {}, n1: {}, n2: {} };
const id = "r0";
/** A sampler of three processes on three nodes, which is a member. */
const several = (patch: Partial<FleetReplica> = {}, state: Partial<ControllerState> = {}): ControllerState =>
  fleetOf({
    nodes,
    replicas: { [id]: replicaOf({ group: groupOf(), ...patch }) },
    members: { [id]: memberOf(id, 9) },
    patch: { nowMs: 5_000, ...state },
  });
const rowOf = (state: ControllerState): FleetReplica => state.fleet.replicas[id] ?? replicaOf();

describe("a node", () => {
  it("that is ready has taken no assignment yet", () => {
    const state = fleetOf({ nodes: { n0: { revision: 5, acked: 4, assigned: "[]" } } });
    const capacity = { policy: 1, rollout: 2, checkpoint: null };
    const ready = (more: object) =>
      applyReady(state, reportFrom(state, "n0", { kind: "node.ready", body: { capacity, ...more } as never })).state
        .fleet.nodes.n0;
    const row = { incarnation: "n0-i1", capacity, revision: 0, acked: 0, signs: [], assigned: "" };
    expect(ready({})).toEqual(row);
    expect(ready({ address: "a", capabilities: ["ranks"] })).toEqual({ ...row, address: "a", capabilities: ["ranks"] });
  });

  it("works on the assignment that it was sent last, and on none before it", () => {
    const order = { kind: "node.assign", revision: 7, dueAtMs: 9_000 } as const;
    const state = withMember(fleetOf({ nodes: { n0: { revision: 7, acked: 5 } } }), "n0", { order, unanswered: 2 });
    const said = (revision: number, from = "n0") =>
      applyAssigned(state, reportFrom(state, from, { kind: "node.assigned", body: { revision } })).state;
    expect(said(7).fleet.nodes.n0?.acked).toBe(7);
    expect(said(7).members.n0).toMatchObject({ order: null, unanswered: 0 });
    expect([said(6), said(7, "n9")]).toEqual([state, state]);
  });

  it("is kept free of new work for new signs where the job wants that, once, and while another one takes work", () => {
    const sign = (kind: string) => ({ kind, detail: `${kind} is odd` });
    const told = (state: ControllerState, ...kinds: string[]) =>
      applySigns(
        state,
        reportFrom(state, "n0", { kind: "node.signs", body: { signs: kinds.map(sign) } as Body<"node.signs"> }),
      );
    const two = fleetOf({ nodes: { n0: {}, n1: {} } });
    const saysOf = ({ effects }: ReturnType<typeof told>) =>
      bodiesOf(effects, "alarm.raised").map(({ detail }) => detail);
    const first = told(two, "heat");
    expect([first.state.fleet.cordoned, saysOf(first)]).toEqual([
      ["n0"],
      ["n0 may fail soon: heat is odd; it gets no new work until muster uncordon n0"],
    ]);
    const second = told(first.state, "heat", "gpu");
    expect([second.state.fleet.cordoned, saysOf(second)]).toEqual([
      ["n0"],
      ["n0 may fail soon: gpu is odd; it gets no new work already"],
    ]);
    expect(saysOf(told(second.state, "heat", "gpu"))).toEqual([]);
    const { failure } = two.plan;
    const kept = told({ ...two, plan: { ...two.plan, failure: { ...failure, cordonOnSigns: false } } }, "heat");
    const alone = told(fleetOf({ nodes: { n0: {} } }), "heat");
    for (const change of [kept, alone]) {
      expect(change.state.fleet.cordoned).toEqual([]);
      expect(saysOf(change)).toEqual([
        "n0 may fail soon: heat is odd; it goes on; muster cordon n0 keeps new work away",
      ]);
    }
  });
});

describe("the start of a rank", () => {
  const started = (body: object, from = "n0", state = several({ group: groupOf({ master: null, begunAtMs: null }) })) =>
    rowOf(
      applyStarted(
        state,
        reportFrom(state, from, { kind: "process.started", body: { id, pid: 99, life: 1, ...body } as never }),
      ).state,
    );

  it("of rank 0 says where the others meet it, and that of another rank, of another life or without a port does not", () => {
    const begun = { master: { life: 1, port: 29 }, begunAtMs: 5_000 };
    expect(started({ port: 29 })).toMatchObject({ process: { pid: 99, life: 1 }, group: begun });
    const none = { master: null, begunAtMs: null };
    expect(started({ rank: 0 })).toMatchObject({ process: { pid: 99 }, group: none });
    expect(started({ rank: 0, life: 2, port: 29 })).toMatchObject({ process: { pid: 99, life: 2 }, group: none });
    const other = started({ rank: 1, port: 29 }, "n1");
    expect(other).toMatchObject({ process: { pid: 7 }, group: none });
    expect(other.group?.ranks.map(({ process }) => process?.pid)).toEqual([99, 12]);
  });

  it("counts from its own node, and of a life that has not ended", () => {
    const before = several({ ended: 1, life: 2, group: groupOf({ master: null }) });
    expect(started({ life: 2 }, "n1", before)).toEqual(rowOf(before));
    expect(started({ life: 1 }, "n0", before)).toEqual(rowOf(before));
    expect(started({ life: 2 }, "n0", before)).toMatchObject({ process: { pid: 99, life: 2 } });
    const ranks = groupOf().ranks.map((rank) => ({ ...rank, ended: 1 }));
    const ended = several({ group: groupOf({ ranks }) });
    expect(started({ rank: 1 }, "n1", ended)).toEqual(rowOf(ended));
    expect(started({ rank: 7 }, "n1", ended)).toEqual(rowOf(ended));
  });
});

describe("the end of a rank", () => {
  const exited = (body: object, from: string, state = several()) =>
    applyProcessEnd(
      state,
      reportFrom(state, from, {
        kind: "process.exited",
        body: { id, host: "h", pid: 11, life: 1, rank: 1, code: 1, signal: null, ...body } as never,
      }),
    );
  const lifeAfter = (...args: Parameters<typeof exited>) => rowOf(exited(...args).state).life;

  it("is known from its own node, and takes the process away that it names", () => {
    expect(exited({}, "n2").state).toEqual(several());
    const other = rowOf(exited({ pid: 50 }, "n1").state);
    expect(other.group?.ranks[0]).toMatchObject({ process: { pid: 11 }, ended: 1 });
    const ranks = groupOf().ranks.map((rank) => ({ ...rank, process: null }));
    expect(
      rowOf(exited({ pid: 50 }, "n1", several({ group: groupOf({ ranks }) })).state).group?.ranks[0],
    ).toMatchObject({
      ...{ process: null, ended: 1 },
    });
    expect(rowOf(exited({}, "n1").state).group?.ranks[0]).toMatchObject({ process: null, ended: 1 });
  });

  it("ends the life that it is of, and none of a replica that is given up or has another life by now", () => {
    expect(lifeAfter({}, "n1")).toBe(2);
    expect(lifeAfter({ life: undefined }, "n1")).toBe(1);
    expect(lifeAfter({}, "n1", several({ life: 2 }))).toBe(2);
    expect(lifeAfter({}, "n1", several({ health: "RETIRED" }))).toBe(1);
  });

  it("says nothing of a replica that leaves, unless it is rank 0", () => {
    const draining = withMember(several(), id, { health: "draining" });
    for (const leaving of [draining, several({ leaving: true })]) {
      expect(lifeAfter({}, "n1", leaving)).toBe(1);
      expect(lifeAfter({ rank: 0, pid: 7 }, "n0", leaving)).toBe(2);
    }
  });

  it("counts as a death, but for rank 0 that left by itself", () => {
    const deaths = (body: object, from: string) => rowOf(exited(body, from).state).deaths;
    expect([deaths({}, "n1"), deaths({ code: 0 }, "n1"), deaths({ rank: 0, pid: 7 }, "n0")]).toEqual([1, 1, 1]);
    expect(deaths({ rank: 0, pid: 7, code: 0 }, "n0")).toBe(0);
  });

  it("is a start that failed where its process had last words and the replica does not leave", () => {
    const starts = (body: object, state = several()) => exited(body, "n1", state).state.fleet.starts?.rollout;
    expect(starts({ words: "no key" })).toEqual({ "no key": 1 });
    expect([starts({}), starts({ words: "no key" }, several({ leaving: true }))]).toEqual([undefined, undefined]);
  });
});

describe("the end of a replica of one process", () => {
  const exited = (body: object, patch: Partial<FleetReplica> = {}) => {
    const state = fleetOf({ nodes, replicas: { [id]: replicaOf(patch) } });
    const event = { id, host: "h", pid: 7, code: 1, signal: null, ...body } as Body<"process.exited">;
    return applyProcessEnd(state, reportFrom(state, "n0", { kind: "process.exited", body: event })).state;
  };

  it("of no life that is named takes none back and ends none", () => {
    expect(rowOf(exited({}))).toMatchObject({ process: null, ended: 0, life: 1, deaths: 1 });
    expect(rowOf(exited({ code: 0 }))).toMatchObject({ ended: 0, life: 1, deaths: 0 });
  });

  it("is a start that failed where it had last words and does not leave", () => {
    expect(exited({ words: "no key" }).fleet.starts?.rollout).toEqual({ "no key": 1 });
    expect([exited({}).fleet.starts, exited({ words: "no key" }, { leaving: true }).fleet.starts]).toEqual([
      ...[undefined, undefined],
    ]);
  });
});

describe("a replica that its node gives up", () => {
  const retired = (state: ControllerState, from = "n0") =>
    applyRetired(
      state,
      reportFrom(state, from, { kind: "process.retired", body: { id, life: 1, deaths: 6, reason: "it ends" } }),
    );

  it("is given up once, by its own node", () => {
    const state = fleetOf({ nodes, replicas: { [id]: replicaOf() } });
    const once = retired(state);
    expect(rowOf(once.state)).toMatchObject({ health: "RETIRED", deaths: 6, process: null });
    expect(linesOf(once.effects)).toEqual(["! fleet.changed", "! alarm.raised"]);
    for (const change of [retired(state, "n1"), retired(once.state)]) expect(change.effects).toEqual([]);
    expect(retired(state, "n1").state).toEqual(state);
  });
});
