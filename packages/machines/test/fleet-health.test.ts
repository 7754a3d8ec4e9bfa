/** Health of managed replicas: the states of semantics 1, and what moves one to the next. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type HealthFacts, nextHealth, planHealth } from "../src/controller/fleet/fleet-health.ts";
import type { FleetReplica } from "../src/controller/fleet/fleet-state.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { fleetOf, groupOf, replicaOf } from "./fleet-rows.ts";
import { bodiesOf, linesOf, memberOf } from "./states.ts";

const gone: HealthFacts = {
  wasMember: true,
  isMember: false,
  isSameLife: false,
  isHolding: false,
  isSuspect: false,
  isLeaving: false,
  isPlaced: true,
};
const there: HealthFacts = { ...gone, isMember: true, isSameLife: true };
const holding: HealthFacts = { ...there, isHolding: true };

describe("the health of a replica", () => {
  it.each([
    ["STARTING", holding, "HEALTHY"],
    ["STARTING", there, "STARTING"],
    ["STARTING", { ...gone, wasMember: false }, "STARTING"],
    ["STARTING", gone, "DEAD"],
    ["HEALTHY", { ...holding, isSuspect: true }, "SUSPECT"],
    ["HEALTHY", there, "HEALTHY"],
    ["SUSPECT", holding, "HEALTHY"],
    ["SUSPECT", gone, "DEAD"],
    ["DEAD", gone, "RESTARTING"],
    ["DEAD", { ...gone, isPlaced: false }, "DEAD"],
    ["RESTARTING", gone, "RESTARTING"],
    ["RESTARTING", { ...there, isSameLife: false }, "STALE"],
    ["STALE", there, "STALE"],
    ["STALE", holding, "HEALTHY"],
    ["STALE", gone, "DEAD"],
    ["STALE", { ...holding, isLeaving: true }, "DRAINING"],
    ["RETIRED", holding, "RETIRED"],
    ["RETIRED", { ...holding, isLeaving: true }, "RETIRED"],
    ["LEFT", { ...holding, isLeaving: true }, "LEFT"],
    ["LEFT", gone, "LEFT"],
    ["DRAINING", gone, "DRAINING"],
    ["DRAINING", holding, "DRAINING"],
  ] as const)("%s with %j becomes %s", (from, facts, to) => {
    expect(nextHealth(from, facts)).toBe(to);
  });

  it.each(["DEAD", "RESTARTING", "STALE"] as const)("%s does not look at suspicion, gone or there", (health) => {
    for (const facts of [gone, there])
      expect(nextHealth(health, { ...facts, isSuspect: true })).toBe(nextHealth(health, facts));
  });

  it.each(["STARTING", "STALE"] as const)(
    "%s is not HEALTHY while it is suspected, whatever it acknowledged",
    (health) => {
      expect(nextHealth(health, holding)).toBe("HEALTHY");
      expect(nextHealth(health, { ...holding, isSuspect: true })).toBe(health);
    },
  );

  it("after a death is HEALTHY again only through STALE and an acknowledged digest of the committed version", () => {
    const facts = fc.record({
      wasMember: fc.constant(true),
      isMember: fc.boolean(),
      isSameLife: fc.boolean(),
      isHolding: fc.boolean(),
      isSuspect: fc.boolean(),
      isLeaving: fc.constant(false),
      isPlaced: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(facts, { maxLength: 40 }), (steps) => {
        let health = nextHealth("HEALTHY", gone);
        for (const step of steps) {
          const next = nextHealth(health, step);
          if (next === "HEALTHY" && health !== "SUSPECT" && health !== "HEALTHY")
            expect({ health, isHolding: step.isHolding }).toEqual({ health: "STALE", isHolding: true });
          health = next;
        }
      }),
    );
  });
});

describe("what is remembered of replicas, and said", () => {
  const life = (pid: number) => ({ incarnation: `r0-i${pid}`, pid });
  const member = memberOf("r0", 7, { held: { lineage: 0, version: 3 } });
  const after = (patch: Partial<FleetReplica>, members: ControllerState["members"] = {}, state = {}) => {
    const replicas = { r0: replicaOf({ member: life(7), ...patch }) };
    const change = planHealth(fleetOf({ nodes: { n0: {}, n1: {}, n2: {} }, replicas, members, patch: state }));
    const moves = bodiesOf(change?.effects ?? [], "fleet.changed").map(({ from, to }) => `${from} ${to}`);
    return { row: change?.state.fleet.replicas.r0, moves, lines: linesOf(change?.effects ?? []) };
  };

  it("is who it was, once it is seen, and a move, where there is one", () => {
    for (const health of ["STARTING", "STALE"] as const)
      expect(after({ health, member: null }, { r0: { ...member, held: null } })).toMatchObject(
        health === "STARTING"
          ? { row: { health, member: life(7) }, moves: [] }
          : { row: { health: "DEAD" }, moves: ["STALE DEAD"] },
      );
    expect(after({ health: "STARTING" }, { r0: member }).moves).toEqual(["STARTING HEALTHY"]);
    expect(after({ health: "HEALTHY" }, { r0: member })).toMatchObject({ row: undefined, moves: [] });
    expect(after({ health: "DRAINING", member: life(1) }, { r0: member })).toMatchObject({
      ...{ row: { member: life(7) }, moves: [] },
    });
    expect(after({ health: "RESTARTING", member: life(1) }, { r0: member })).toMatchObject({
      ...{ row: { health: "STALE", member: life(7) }, moves: ["RESTARTING STALE"] },
    });
  });

  it("is healthy with the committed version where its role holds weights, and by being there where it does not", () => {
    const checkpoint = { health: "STARTING", role: "checkpoint" } as const;
    expect(after({ health: "STARTING" }, { r0: { ...member, held: null } }).moves).toEqual([]);
    expect(after(checkpoint, { r0: { ...member, role: "checkpoint", held: null } }).moves).toEqual([
      "STARTING HEALTHY",
    ]);
    expect(after(checkpoint).moves, "who is not there is dead").toEqual(["STARTING DEAD"]);
    expect(after({ ...checkpoint, member: null }).moves).toEqual([]);
  });

  it("is released when the job has ended, and not while it only ends", () => {
    const ending = (announced: boolean) => ({ ending: { outcome: "done", reason: "", announced } });
    const moves = [true, false].map((announced) => after({}, { r0: member }, ending(announced)).moves);
    expect(moves).toEqual([["HEALTHY DRAINING"], []]);
    expect(after({ leaving: true }, { r0: member }).moves).toEqual(["HEALTHY DRAINING"]);
  });

  it("is another life that its node is asked for, when it was evicted and its process still runs", () => {
    expect(after({ process: { pid: 7, life: 4 } }).row).toMatchObject({ health: "DEAD", life: 5 });
    expect(after({ process: { pid: 8, life: 4 } }).row).toMatchObject({ health: "DEAD", life: 1 });
    expect(after({ process: null }).row).toMatchObject({ health: "DEAD", life: 1 });
    expect(after({ process: { pid: 7, life: 4 } }, { r0: memberOf("r0", 9) }).row).toMatchObject({ life: 1 });
    expect(after({ health: "DEAD", process: { pid: 7, life: 4 } }).row).toMatchObject({
      health: "RESTARTING",
      life: 1,
    });
  });

  it("is the next life of a replica of several processes whose member is gone, unless that life is over or has not begun", () => {
    const group = groupOf({ begunAtMs: 900 });
    const gone = after({ group });
    expect(gone).toMatchObject({ row: { health: "DEAD", life: 2, deaths: 1 }, moves: ["HEALTHY DEAD"] });
    expect(gone.row?.group).toMatchObject({ losses: [1_000], begunAtMs: null });
    expect(after({ group, process: { pid: 7, life: 2 } }).row?.life).toBe(2);
    for (const patch of [{ life: 2 }, { process: null }, { node: null }, { group: groupOf({ begunAtMs: null }) }])
      expect(after({ group, ...patch }).row).toMatchObject({
        health: "DEAD",
        life: "life" in patch ? 2 : 1,
        deaths: 0,
      });
    expect(after({ group, health: "DEAD" }).row).toMatchObject({ health: "RESTARTING", life: 1 });
  });

  it("is no death of its program where its node leaves, nor after ten seconds in which it was well", () => {
    const group = groupOf({ begunAtMs: 0 });
    const n0 = memberOf("n0", 1, { role: "node", health: "draining" });
    expect(after({ group }, { n0 }).row).toMatchObject({ life: 2, deaths: 0 });
    expect(after({ group }, {}, { nowMs: 10_000 }).row?.group?.losses).toEqual([]);
    expect(after({ group }, {}, { nowMs: 9_999 }).row?.group?.losses).toEqual([9_999]);
  });

  it("is told with what follows from it: a replica that is given up for its deaths", () => {
    const group = groupOf({ begunAtMs: 900, losses: [1, 2, 3, 4, 5] });
    expect(after({ group }).lines).toEqual(["! fleet.changed", "! fleet.changed", "! alarm.raised"]);
  });
});
