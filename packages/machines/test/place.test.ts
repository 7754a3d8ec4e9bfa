/** Where replicas find room, what nodes are told of them, and what is known of their processes. */
import { describe, expect, it } from "vitest";
import { initialFleet } from "../src/controller/fleet/fleet-state.ts";
import { placedOn, roomFor, roomsOf } from "../src/controller/fleet/place.ts";
import { planAssign } from "../src/controller/fleet/plan-assign.ts";
import { canRun, isDue, isQuiet, processesOn, withEnded } from "../src/controller/fleet/ranks.ts";
import { hostsFor, type Room } from "../src/controller/fleet/shared-host.ts";
import type { ControllerPlan } from "../src/controller/plan.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { fleetOf, groupOf, replicaOf } from "./fleet-rows.ts";
import { bodiesOf, memberOf, planWith } from "./states.ts";

type Rows = Parameters<typeof fleetOf>[0];
/** A job with this plan. */
const jobOf = (plan: Partial<ControllerPlan>, rows: Rows): ControllerState =>
  fleetOf({ ...rows, patch: { plan: planWith(plan), ...rows.patch } });
const room = (rollout: number, more: object = {}) => ({
  capacity: { policy: null, rollout, checkpoint: null },
  ...more,
});
const four = { processes: { policy: 1, rollout: 4, checkpoint: 1 } };

it("a fleet begins without a replica that was ever made", () => {
  const none = { policy: 0, rollout: 0, checkpoint: 0 };
  expect(initialFleet({ policy: 1, rollout: 2, checkpoint: 3 })).toMatchObject({
    made: none,
    revision: 0,
    commandsMade: 0,
  });
});

describe("room for a replica of four processes", () => {
  const nodesOf = (state: ControllerState) => {
    const place = roomFor(state, "rollout");
    return place && [place.node, ...(place.group?.ranks.map(({ node }) => node) ?? [])];
  };

  it("is on one node that has room for just as many, before it is on several", () => {
    const state = jobOf(four, { nodes: { n0: room(3), n1: room(3), n2: room(4) } });
    expect(nodesOf(state)).toEqual(["n2", "n2", "n2", "n2"]);
  });

  it("is on the nodes of one host that have room for just as many, the largest first, where the job has no network", () => {
    const state = jobOf(four, { nodes: { n0: room(1), n1: room(3), n2: room(3) }, hosts: { n2: "g" } });
    expect(nodesOf(state)).toEqual(["n1", "n1", "n1", "n0"]);
    const less = jobOf(four, { nodes: { n0: room(1), n1: room(2), n2: room(3) }, hosts: { n2: "g" } });
    expect(nodesOf(less)).toBeNull();
  });

  it("is on several hosts that have addresses, where all together have just as much", () => {
    const nodes = { n0: room(1, { address: "a" }), n1: room(3, { address: "b" }) };
    const hosts = { n0: "a", n1: "b" };
    expect(nodesOf(jobOf(four, { nodes, hosts }))).toEqual(["n1", "n1", "n1", "n0"]);
    const silent = { ...nodes, n0: room(1) };
    expect(nodesOf(jobOf(four, { nodes: silent, hosts }))).toBeNull();
  });

  it("is on no node that runs 4,096 processes already, nor on one that does not know of ranks", () => {
    const running = Object.fromEntries(
      Array.from({ length: 4_095 }, (_, i) => [`p${i}`, replicaOf({ role: "policy" })]),
    );
    const freeOf = (replicas: Rows["replicas"]) =>
      roomsOf(jobOf({}, { nodes: { n0: {} }, replicas: replicas ?? {} }), "rollout");
    expect(freeOf(running).map(({ free, load }) => [free, load])).toEqual([[1, 4_095]]);
    expect(freeOf({ ...running, more: replicaOf() })).toEqual([]);
    expect(roomsOf(jobOf(four, { nodes: { n0: { capabilities: [] } } }), "rollout")).toEqual([]);
    expect(canRun(jobOf(four, {}), "n9", "rollout")).toBe(false);
    expect(canRun(jobOf(four, {}), "n9", "policy")).toBe(true);
  });
});

it("a replica that gets another place keeps what is known of its lives, and nothing is known of one that had none", () => {
  const place = { node: "n5", group: groupOf({ ranks: [{ node: "n6", process: null }] }) };
  const known = groupOf({ losses: [1, 2], restartAtMs: 7, leftovers: [{ node: "n0", pid: 3 }] });
  const after = (group?: typeof known) =>
    placedOn(fleetOf({ replicas: { r0: replicaOf(group ? { group } : {}) } }), "r0", place).fleet.replicas.r0;
  expect(after(known)).toMatchObject({ node: "n5", group: { ...known, ranks: [{ node: "n6", process: null }] } });
  expect(after()).toMatchObject({ node: "n5", group: place.group });
  const alone = placedOn(fleetOf({ replicas: { r0: replicaOf({ group: known }) } }), "r0", { node: "n5" });
  expect(alone.fleet.replicas.r0).toMatchObject({ node: "n5", group: known });
});

describe("hosts for replicas that share one", () => {
  const hosts = { a0: "a", b0: "b", c0: "c" };
  const rooms = (state: ControllerState, free: Readonly<Record<string, number>>): Room[] =>
    Object.entries(free).map(([id, n]) => ({ node: state.members[id] ?? memberOf(id, 1), load: 0, free: n }));
  const orderOf = (
    plan: Partial<ControllerPlan>,
    free: Record<string, number>,
    rows: Rows = {},
    role = "policy" as const,
  ) => {
    const wanted = { policy: 2, rollout: 0, checkpoint: 0, ...rows.patch?.fleet?.wanted };
    const state = jobOf(plan, {
      nodes: { a0: {}, b0: {}, c0: {}, ...rows.nodes },
      hosts,
      ...(rows.replicas ? { replicas: rows.replicas } : {}),
    });
    const fleet = { ...state.fleet, wanted };
    return hostsFor({ ...state, fleet }, role, rooms(state, free)).map((each) =>
      each.map(({ node }) => node.id).join(),
    );
  };

  it("are first those with room for just all that are wanted, then the others, the roomiest first", () => {
    expect(orderOf({}, { a0: 1, b0: 2, c0: 5 })).toEqual(["b0", "c0", "a0"]);
    expect(orderOf({}, { a0: 0, b0: 1, c0: 1 })).toEqual(["b0", "c0", "a0"]);
    const pairs = { processes: { policy: 2, rollout: 1, checkpoint: 1 } };
    expect(orderOf(pairs, { a0: 3, b0: 1, c0: 4 })).toEqual(["c0", "a0", "b0"]);
  });

  it("are all of them together at last, where the job names their network and no files are to be kept", () => {
    expect(orderOf({ rolloutsServe: true }, { a0: 1, b0: 1, c0: 1 })).toEqual(["a0", "b0", "c0", "a0,b0,c0"]);
    const checkpoint = "checkpoint" as never;
    expect(orderOf({ rolloutsServe: true }, { a0: 1, b0: 1, c0: 1 }, {}, checkpoint)).toEqual(["a0", "b0", "c0"]);
  });

  it("are first those that may keep files, where files are wanted", () => {
    const bare = { capacity: { policy: null, rollout: null, checkpoint: 0 } };
    const wanted = { policy: 2, rollout: 0, checkpoint: 1 };
    const rows = (checkpoint: number) => ({
      nodes: { a0: bare },
      patch: { fleet: { wanted: { ...wanted, checkpoint } } as never },
    });
    expect(orderOf({}, { a0: 2, b0: 2, c0: 2 }, rows(1))).toEqual(["b0", "c0", "a0"]);
    expect(orderOf({}, { a0: 2, b0: 2, c0: 2 }, rows(0))).toEqual(["a0", "b0", "c0"]);
  });

  it("is the one that is shared already, while a node of it takes replicas", () => {
    const replicas = { p0: replicaOf({ role: "policy", node: "b0" }) };
    expect(orderOf({}, { a0: 9, b0: 1, c0: 9 }, { replicas })).toEqual(["b0"]);
    expect(orderOf({ rolloutsServe: true }, { a0: 9, b0: 1, c0: 9 }, { replicas })).toEqual(["b0", "a0,b0,c0"]);
  });
});

describe("what a node is told", () => {
  const told = (state: ControllerState) =>
    (planAssign(state)?.effects ?? []).flatMap((effect) =>
      effect.type === "command" && effect.kind === "node.assign" ? [[effect.to, effect.body] as const] : [],
    );
  const single = replicaOf({ group: groupOf({ ranks: [{ node: "n1", process: null }], master: null }), process: null });

  it("is said once, and again when something changes, be it the port of a single rank", () => {
    const state = fleetOf({ nodes: { n0: { revision: 0 }, n1: { revision: 0 } }, replicas: { r0: single } });
    expect(told(state).map(([to, { ranks }]) => [to, ranks?.map(({ rank, isDue }) => [rank, isDue])])).toEqual([
      ["n0", [[0, true]]],
      ["n1", [[1, false]]],
    ]);
    const first = planAssign(state)?.state as ControllerState;
    expect(planAssign(first)).toBeNull();
    const begun = { ...single, group: { ...groupOf(single.group), master: { life: 1, port: 1 } } };
    const met = { ...first, fleet: { ...first.fleet, replicas: { r0: begun } } };
    expect(told(met).map(([to, { ranks }]) => [to, ranks?.[0]?.isDue, ranks?.[0]?.master.port])).toEqual([
      ["n1", true, 1],
    ]);
  });

  it("says nothing of ranks where there are none, and is said of nothing, too", () => {
    const state = fleetOf({ nodes: { n0: { revision: 0 }, n1: { revision: 0 } }, replicas: { r0: replicaOf() } });
    expect(told(state)).toEqual([
      ["n0", { revision: 1, replicas: [{ id: "r0", role: "rollout", life: 1 }] }],
      ["n1", { revision: 2, replicas: [] }],
    ]);
  });

  it("is said again where it was not acknowledged, and nobody waits for that", () => {
    const said = planAssign(fleetOf({ nodes: { n0: { revision: 0, acked: 0 } } }))?.state as ControllerState;
    expect(planAssign(said)).toBeNull();
    const silent = { ...said, members: { n0: { ...memberOf("n0", 1, { role: "node" }), order: null } } };
    expect(bodiesOf(planAssign(silent)?.effects ?? [], "node.assign")).toEqual([{ revision: 2, replicas: [] }]);
  });
});

describe("what is known of processes", () => {
  it("is on which node each of them runs", () => {
    const sole = replicaOf({ node: "n1" });
    const ranks = groupOf({ ranks: ["n1", "n1"].map((node) => ({ node, process: null })) });
    const state = fleetOf({ replicas: { r0: sole, r1: replicaOf({ group: ranks }) } });
    const rolesOn = (node: string) => processesOn(state, node).map((each) => (each === sole ? "sole" : "rank"));
    expect([rolesOn("n0"), rolesOn("n1"), rolesOn("n2")]).toEqual([["rank"], ["sole", "rank", "rank"], []]);
  });

  it("is whether the next life may begin: in its time, with nobody left of an earlier one", () => {
    const due = (patch: Parameters<typeof replicaOf>[0], group: Parameters<typeof groupOf>[0] = {}, nowMs = 500) =>
      isDue({ nowMs }, replicaOf({ group: groupOf({ restartAtMs: 500, ...group }), ...patch }));
    expect([due({}), due({}, {}, 499), due({ life: 2 }), due({ process: null })]).toEqual([true, false, false, true]);
    expect(due({}, { leftovers: [{ node: "n9", pid: 1 }] })).toBe(false);
    expect(isDue({ nowMs: 500 }, replicaOf())).toBe(false);
    const quiet = { ranks: groupOf().ranks.map((rank) => ({ ...rank, process: null })) };
    const isStill = (group: Parameters<typeof groupOf>[0]) =>
      isQuiet(replicaOf({ process: null, group: groupOf(group) }));
    expect([isStill(quiet), isStill({}), isStill({ ...quiet, leftovers: [{ node: "n9", pid: 1 }] })]).toEqual([
      ...[true, false, false],
    ]);
  });

  it("is the last life of each rank that ended, and never an earlier one", () => {
    const state = fleetOf({ replicas: { r0: replicaOf({ group: groupOf(), ended: 2 }), r1: replicaOf() } });
    const ended = (id: string, rank: number, life: number, from = state) => withEnded(from, { id, rank }, life);
    const row = (now: ControllerState, id = "r0") => now.fleet.replicas[id];
    expect(row(ended("r0", 0, 3))).toMatchObject({ ended: 3 });
    expect(row(ended("r0", 0, 1))).toMatchObject({ ended: 2 });
    expect(row(ended("r1", 0, 0), "r1")?.ended).toBe(0);
    expect(row(ended("r0", 2, 4))?.group?.ranks.map(({ ended: last }) => last)).toEqual([undefined, 4]);
    expect(row(ended("r0", 1, 1, ended("r0", 1, 3)))?.group?.ranks.map(({ ended: last }) => last)).toEqual([
      3,
      undefined,
    ]);
    expect(row(ended("r0", 1, 0))?.group?.ranks[0]?.ended).toBe(0);
    expect(ended("r9", 0, 1)).toBe(state);
  });
});
