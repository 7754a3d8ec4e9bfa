/** What follows from nodes that leave or are gone, and from roles that have too few or too many: who is made, moved, let go, and told. */
import { describe, expect, it } from "vitest";
import { planStarts } from "../src/controller/fleet/failed-starts.ts";
import type { FleetReplica } from "../src/controller/fleet/fleet-state.ts";
import { missingOf, planDepartures, planNodes, planPlacement } from "../src/controller/fleet/plan-fleet.ts";
import { planMoves } from "../src/controller/fleet/plan-moves.ts";
import { placeShortages } from "../src/controller/fleet/shortages.ts";
import type { ControllerPlan } from "../src/controller/plan.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { fleetOf, groupOf, replicaOf } from "./fleet-rows.ts";
import { bodiesOf, memberOf, planWith } from "./states.ts";

type Rows = Parameters<typeof fleetOf>[0];
const counts = (patch: object = {}) => ({ policy: 0, rollout: 0, checkpoint: 0, ...patch });
/** A job that wants so many replicas. */
const wanting = (wanted: object, rows: Rows, plan: Partial<ControllerPlan> = {}): ControllerState => {
  const state = fleetOf({ ...rows, patch: { plan: planWith(plan), ...rows.patch } });
  return { ...state, fleet: { ...state.fleet, wanted: counts(wanted) } };
};
const movesOf = (change: ReturnType<typeof planMoves>) =>
  bodiesOf(change?.effects ?? [], "fleet.changed").map(({ id, to, reason }) => `${id} ${to}: ${reason}`);
const leaving = memberOf("n0", 1, { role: "node", health: "draining" });

describe("replicas on a node that leaves", () => {
  const n0 = { ...leaving, incarnation: "n0-i1" };
  const r0 = memberOf("r0", 9);
  const moved = (patch: Partial<FleetReplica> = {}, rows: Rows = {}, plan: Partial<ControllerPlan> = {}) => {
    const { replicas, ...more } = rows;
    const state = wanting(
      { rollout: 1 },
      { nodes: { n0: {}, n1: {} }, members: { n0, r0 }, replicas: { r0: replicaOf(patch), ...replicas }, ...more },
      plan,
    );
    const change = planMoves(state);
    return { change, rows: change?.state.fleet.replicas, said: movesOf(change) };
  };

  it("get a successor on another node, which is told, and go when that one is healthy", () => {
    const { rows, said } = moved();
    expect(rows?.r0).toMatchObject({ replacedBy: "rollout-0", leaving: false });
    expect(rows?.["rollout-0"]).toMatchObject({ node: "n1", seq: 0 });
    expect(said).toEqual(["rollout-0 STARTING: to n1 for r0"]);
    const successor = (fresh: Partial<FleetReplica>) =>
      moved({ replacedBy: "r1" }, { replicas: { r1: replicaOf({ node: "n1", ...fresh }) } });
    expect(successor({ health: "HEALTHY" })).toMatchObject({ rows: { r0: { leaving: true } }, said: [] });
    expect(successor({ health: "STARTING" }).change).toBeNull();
    expect(successor({ health: "RETIRED" })).toMatchObject({ rows: { r0: { replacedBy: null } } });
  });

  it("get none when there is no room, no time, nobody of theirs there, or when they are given up or the job ends", () => {
    expect(moved({}, { nodes: { n0: {} } }).change).toBeNull();
    expect(moved({}, { nodes: { n0: { leaveDueAtMs: 1_000 }, n1: {} } }).change).toBeNull();
    expect(moved({}, { nodes: { n0: { leaveDueAtMs: 1_001 }, n1: {} } }).change).not.toBeNull();
    expect(moved({}, { members: { n0 } }).change).toBeNull();
    expect(moved({ health: "RETIRED" }).change).toBeNull();
    expect(moved({ node: "n1" }).change).toBeNull();
    expect(moved({ leaving: true }).change).toBeNull();
    expect(moved({}, { patch: { ending: { outcome: "done", reason: "", announced: false } } }).change).toBeNull();
  });

  it("get none on a host that the rest of the job does not reach, where their role shares one", () => {
    const on = (host: string, plan: Partial<ControllerPlan> = {}, role: FleetReplica["role"] = "policy") =>
      moved({ role }, { hosts: { n1: host }, members: { n0, r0: memberOf("r0", 9) } }, plan).rows?.r0?.replacedBy ??
      null;
    expect([on("h"), on("g"), on("g", {}, "rollout")]).toEqual(["policy-0", null, "rollout-0"]);
    // A network is a way to another host.
    expect(on("g", { rolloutsServe: true })).toBe("policy-0");
  });

  it("go with a successor that goes itself, or after the one that takes its place", () => {
    const after = (fresh: Partial<FleetReplica>) =>
      moved({ replacedBy: "r1" }, { replicas: { r1: replicaOf({ node: "n1", leaving: true, ...fresh }) } }).rows?.r0;
    expect(after({})).toMatchObject({ leaving: true, replacedBy: null });
    expect(after({ replacedBy: "r2" })).toMatchObject({ leaving: false, replacedBy: "r2" });
    expect(moved({ replacedBy: "r7" }).rows?.r0).toMatchObject({ leaving: true, replacedBy: null });
  });

  it("need no successor any more when their node stays, and go with it when it is gone, unless an operator asked for one", () => {
    const n0Stays = memberOf("n0", 1, { role: "node" });
    const stays = (patch: Partial<FleetReplica>, commands: object = {}) => {
      const state = wanting(
        {},
        {
          nodes: { n0: {}, n1: {} },
          members: { n0: n0Stays, r0 },
          replicas: { r0: replicaOf({ replacedBy: "r1", ...patch }), r1: replicaOf({ node: "n1" }) },
        },
      );
      return planMoves({ ...state, fleet: { ...state.fleet, commands: commands as never } })?.state.fleet.replicas;
    };
    expect(stays({})).toMatchObject({ r0: { replacedBy: null, leaving: false }, r1: { leaving: true } });
    expect(stays({ node: null })).toMatchObject({ r0: { replacedBy: null, leaving: true }, r1: { leaving: false } });
    const asked = { kind: "replica.replace", target: "r0", answer: null };
    expect(stays({}, { c1: asked })).toBeUndefined();
    for (const other of [
      { ...asked, kind: "replica.drain" },
      { ...asked, target: "r9" },
      { ...asked, answer: { outcome: "done" } },
    ])
      expect(stays({}, { c1: other })).toMatchObject({ r1: { leaving: true } });
  });
});

describe("a node that is gone", () => {
  it("takes a rank of a replica of several with it, which says which, and what is left of the others is remembered", () => {
    const evidenceOf = (ranks: readonly string[], gone: string) => {
      const nodes = { n0: {}, n1: {}, n2: {} };
      const group = groupOf({ ranks: ranks.map((node, i) => ({ node, process: { pid: 20 + i, life: 1 } })) });
      const state = fleetOf({ nodes, replicas: { r0: replicaOf({ group }) }, members: { r0: memberOf("r0", 9) } });
      const { [gone]: _, ...members } = state.members;
      const change = planNodes({ ...state, members });
      const row = change?.state.fleet.replicas.r0;
      return [bodiesOf(change?.effects ?? [], "member.died")[0]?.evidence, row?.group?.leftovers.map(({ pid }) => pid)];
    };
    expect(evidenceOf(["n1", "n2"], "n2")).toEqual(["rank 2 of r0: n2, where it ran, is gone", [7, 20]]);
    expect(evidenceOf(["n2", "n2"], "n2")).toEqual(["ranks 1, 2 of r0: n2, where they ran, is gone", [7]]);
  });
});

describe("roles that have too few or too many", () => {
  it("get each that is missing, under the next number, and each is told once", () => {
    const state = wanting({ rollout: 2 }, { nodes: { n0: {} }, replicas: { "rollout-0": replicaOf() } });
    const change = planPlacement(state);
    expect(movesOf(change)).toEqual(["rollout-1 STARTING: to n0"]);
    expect(change?.state.fleet.replicas["rollout-1"]).toMatchObject({ seq: 0, life: 1, deaths: 0, ended: 0 });
    const next = planPlacement({
      ...(change?.state ?? state),
      fleet: { ...(change?.state ?? state).fleet, wanted: counts({ rollout: 3 }) },
    });
    expect(next?.state.fleet.replicas["rollout-2"]?.seq).toBe(2);
  });

  it("forget who has left, with its cordon, and say so", () => {
    const state = fleetOf({
      nodes: { n0: {} },
      replicas: { r0: replicaOf({ leaving: true, process: null }), r1: replicaOf() },
    });
    const change = planDepartures({ ...state, fleet: { ...state.fleet, cordoned: ["n0", "r0", "r1"] } });
    expect(Object.keys(change?.state.fleet.replicas ?? {})).toEqual(["r1"]);
    expect(change?.state.fleet.cordoned).toEqual(["n0", "r1"]);
    expect(movesOf(change)).toEqual(["r0 LEFT: it is gone"]);
  });

  it("say how many there are, whether nodes are there, and who of theirs was given up", () => {
    const replicas = {
      r0: replicaOf({ health: "RETIRED" }),
      r1: replicaOf(),
      p0: replicaOf({ role: "policy", health: "RETIRED" }),
    };
    const least = { policy: 0, rollout: 2 };
    const missing = (rows: Rows) => missingOf(wanting({}, rows, { minReplicas: least }));
    expect(missing({ nodes: { n0: {} }, replicas })).toEqual(["rollout: 0 healthy, at least 2 needed (given up: r0)"]);
    expect(missing({ nodes: { n0: {} } })).toEqual(["rollout: 0 healthy, at least 2 needed"]);
    expect(missing({})).toEqual(["rollout: 0 healthy, at least 2 needed (no node is there to start one)"]);
    const members = { r0: memberOf("r0", 8), r1: memberOf("r1", 9) };
    expect(missing({ nodes: { n0: {} }, members })).toEqual([]);
  });

  it("are ready with the first that is, be it a single one", () => {
    const ready = (members: ControllerState["members"]) => planStarts(fleetOf({ members }))?.state.fleet.starts;
    expect(ready({ p0: memberOf("p0", 1, { held: { lineage: 0, version: 3 } }) })).toEqual({ policy: "ready" });
    expect(ready({ p0: memberOf("p0", 1) })).toBeUndefined();
  });
});

describe("what is said of replicas that wait for a place", () => {
  const noRoom = { capacity: { policy: 0, rollout: 0, checkpoint: 0 } };
  const said = (wanted: object, rows: Rows, plan: Partial<ControllerPlan> = {}) =>
    placeShortages(wanting(wanted, rows, plan));
  const gpu = (devices: readonly string[]) => memberOf("n0", 1, { role: "node", devices });

  it("is nothing before there are nodes and at the end, and nothing of samplers in a job that gives no devices", () => {
    expect(said({ checkpoint: 1 }, {})).toEqual([]);
    expect(said({ rollout: 1 }, { nodes: { n0: noRoom } })).toEqual([]);
    const ending = { outcome: "done", reason: "", announced: false } as const;
    expect(said({ checkpoint: 1 }, { nodes: { n0: noRoom }, patch: { ending } })).toEqual([]);
    expect(said({ checkpoint: 1 }, { nodes: { n0: noRoom } })).toHaveLength(1);
    expect(said({ checkpoint: 1 }, { nodes: { n0: {} } }), "there is room").toEqual([]);
    expect(said({ checkpoint: 1 }, { nodes: { n0: noRoom }, members: { c0: memberOf("c0", 5) } })).toEqual([]);
  });

  it("is how many wait: those that were never made, and those without a node that are not given up", () => {
    const waiting = (replicas: Rows["replicas"]) =>
      said({ checkpoint: 2 }, { nodes: { n0: noRoom }, replicas: replicas ?? {} })[0]?.split(" a node")[0];
    const c = (patch: Partial<FleetReplica>) => replicaOf({ role: "checkpoint", ...patch });
    expect(waiting({})).toBe("checkpoint: 2 wait, each for");
    expect(waiting({ c0: c({ node: null }), c1: c({}) })).toBe("checkpoint: 1 waits for");
    expect(waiting({ c0: c({ node: null }), c1: c({ node: null, health: "RETIRED" }) })).toBe(
      "checkpoint: 2 wait, each for",
    );
    expect(waiting({ c0: c({}), c1: c({}) })).toBeUndefined();
  });

  it("is how many devices a sampler needs and what each node has, where none has enough", () => {
    const plan = { devices: counts({ rollout: 2 }), rolloutRanks: 1 };
    const says = (devices: readonly string[], more: Partial<ControllerPlan> = {}, members = {}) =>
      said(
        { rollout: 1 },
        { nodes: { n0: {} }, members: { n0: { ...gpu(devices), incarnation: "n0-i1" }, ...members } },
        { ...plan, ...more },
      );
    expect(says(["0"])[0]).toContain("1 waits for 2 devices of one node (devices.rollout = 2; free: n0 1 of 1)");
    expect(says(["0", "1"]), "just enough").toEqual([]);
    expect(says(["0"], { rolloutRanks: 2 })[0]).toContain("(devices.rollout = 1, rollout.ranks = 2; free: n0 1 of 1)");
    expect(says(["0"], { devices: counts({ policy: 1 }) }), "it needs none").toEqual([]);
    const trainer = said(
      { policy: 1 },
      { nodes: { n0: {} }, members: { n0: { ...gpu([]), incarnation: "n0-i1" } } },
      {
        ...{ devices: counts({ policy: 1 }), rolloutRanks: 2 },
      },
    );
    expect(trainer[0]).toContain("1 waits for 1 devices of one node (devices.policy = 1; free: n0 0 of 0)");
  });

  it("is how much room a replica of several processes needs, with devices where they have some", () => {
    const plan = { processes: { policy: 1, rollout: 2, checkpoint: 1 } };
    const one = { capacity: { policy: null, rollout: 1, checkpoint: null } };
    const says = (more: Partial<ControllerPlan> = {}) =>
      said({ rollout: 1 }, { nodes: { n0: one } }, { ...plan, ...more })[0];
    expect(says()).toContain("room for 2 processes (processes.rollout = 2; room: n0 1)");
    expect(says({ devices: counts({ rollout: 1 }) })).toContain(
      "room for 2 processes of 1 device (processes.rollout = 2, devices.rollout = 1; room: n0 0)",
    );
    expect(says({ devices: counts({ rollout: 2 }) })).toContain("room for 2 processes of 2 devices");
    expect(said({ rollout: 1 }, { nodes: { n0: {} } }, plan)).toEqual([]);
  });
});
