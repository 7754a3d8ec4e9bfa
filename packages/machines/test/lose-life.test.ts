/** The end of a life of a replica of several processes: what counts, what is told, and when it is given up. */
import { describe, expect, it } from "vitest";
import { endHopeless } from "../src/controller/fleet/hopeless.ts";
import { isNeeded } from "../src/controller/fleet/last-trainer.ts";
import { type Loss, loseLife } from "../src/controller/fleet/lose-life.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { fleetOf, groupOf, replicaOf } from "./fleet-rows.ts";
import { bodiesOf, linesOf, memberOf } from "./states.ts";

const id = "r0";
const nodes = { n0: {}, n1: {}, n2: {} };
const several = (group: Parameters<typeof groupOf>[0] = {}, patch: Partial<ControllerState> = {}, isMember = true) =>
  fleetOf({
    nodes,
    replicas: { [id]: replicaOf({ group: groupOf(group) }) },
    members: isMember ? { [id]: memberOf(id, 9) } : {},
    patch: { nowMs: 700_000, ...patch },
  });
const lost = (state: ControllerState, loss: Partial<Loss> = {}) =>
  loseLife(state, id, { evidence: "rank 1 ended", by: "exit", node: "n1", isCounted: true, ...loss });
const rowOf = (state: ControllerState) => state.fleet.replicas[id] ?? replicaOf();
const lossesAfter = (state: ControllerState, loss: Partial<Loss> = {}) => rowOf(lost(state, loss).state).group?.losses;

describe("a life that is lost", () => {
  it("takes its member out at once, with the cause; of one that was no member the loss itself is told, where it counts", () => {
    const { effects } = lost(several(), { failure: "oom" });
    expect(bodiesOf(effects, "member.died")).toMatchObject([{ id, evidence: "rank 1 ended", by: "exit", silentMs: 0 }]);
    expect(bodiesOf(effects, "fleet.changed")).toEqual([]);
    const early = lost(several({}, {}, false));
    expect(bodiesOf(early.effects, "fleet.changed")).toMatchObject([
      { id, from: "HEALTHY", to: "HEALTHY", life: 2, deaths: 1, reason: "rank 1 ended" },
    ]);
    expect(lost(several({}, {}, false), { isCounted: false }).effects).toEqual([]);
  });

  it("is followed by another one: when nobody is to blame at once, else after a pause", () => {
    expect(rowOf(lost(several()).state)).toMatchObject({ life: 2, deaths: 1, group: { restartAtMs: 700_250 } });
    expect(rowOf(lost(several(), { isCounted: false }).state)).toMatchObject({
      life: 2,
      deaths: 0,
      group: { restartAtMs: 0 },
    });
  });

  it("counts for ten minutes, and not after a good life that was ended from outside", () => {
    const earlier = [100_000, 100_001, 650_000];
    expect(lossesAfter(several({ losses: earlier }))).toEqual([100_001, 650_000, 700_000]);
    const good = several({ losses: earlier, begunAtMs: 690_000 });
    expect(lossesAfter(good, { isKill: true })).toEqual([]);
    expect(lossesAfter(good)).toHaveLength(3);
    const short = several({ losses: earlier, begunAtMs: 690_001 });
    expect(lossesAfter(short, { isKill: true })).toHaveLength(3);
    expect(lossesAfter(several({ losses: earlier, begunAtMs: null }), { isKill: true })).toHaveLength(3);
  });

  it("is the last one after the sixth loss, of which no more are remembered, on the node where it happened", () => {
    const five = [1, 2, 3, 4, 5].map((n) => 690_000 + n);
    const out = lost(several({ losses: five }));
    expect(rowOf(out.state)).toMatchObject({ health: "RETIRED", node: "n1", process: null, group: { ranks: [] } });
    expect(bodiesOf(out.effects, "alarm.raised")[0]?.detail).toBe(
      "r0 (rollout, 3 ranks) is given up: it ended 6 times in 10 minutes, the last time because rank 1 ended",
    );
    const many = [...five, ...five];
    expect(lossesAfter(several({ losses: many }))).toHaveLength(6);
    const given = several({ losses: five });
    const again = {
      ...given,
      fleet: { ...given.fleet, replicas: { [id]: { ...rowOf(given), health: "RETIRED" as const } } },
    };
    expect(bodiesOf(lost(again).effects, "alarm.raised")).toEqual([]);
  });
});

describe("a job whose last trainer is given up before it has begun", () => {
  const given = (patch: Partial<ControllerState> = {}, role: "policy" | "rollout" = "policy") => {
    const state = fleetOf({
      replicas: { p0: replicaOf({ role: "policy", health: "RETIRED" }), r0: replicaOf() },
      patch: { weights: null, ...patch },
    });
    return endHopeless(state, role, "p0 ends").ending?.reason;
  };

  it("ends with that", () => {
    expect(given()).toBe("no policy replica could start: p0 ends");
  });

  it("goes on when it had weights, began anew, ends already, another trainer is there or has room, or it was no trainer", () => {
    const { weights, restore } = fleetOf({});
    expect(given({ weights })).toBeUndefined();
    expect(given({ restore: { ...restore, lineage: 1 } })).toBeUndefined();
    expect(given({ ending: { outcome: "done", reason: "so", announced: false } })).toBe("so");
    expect(given({}, "rollout")).toBeUndefined();
    const room = fleetOf({ nodes: { n9: {} }, replicas: { p0: replicaOf({ role: "policy", health: "RETIRED" }) } });
    expect(endHopeless({ ...room, weights: null }, "policy", "p0 ends").ending).toBeNull();
    const left = fleetOf({ replicas: { p0: replicaOf({ role: "policy", health: "STARTING" }) } });
    expect(endHopeless({ ...left, weights: null }, "policy", "p0 ends").ending).toBeNull();
  });
});

describe("the only trainer that is left", () => {
  const policy = (patch: Parameters<typeof replicaOf>[0] = {}) => replicaOf({ role: "policy", ...patch });
  const lossy = { count: 1, causes: ["p0: SIGSEGV"] };
  const needed = (
    replicas: Parameters<typeof fleetOf>[0]["replicas"],
    patch: Partial<ControllerState> = {},
    members: ControllerState["members"] = {},
  ) =>
    isNeeded(
      fleetOf({ replicas: { p0: policy(), ...replicas }, members, patch: { losses: { 4: lossy }, ...patch } }),
      "p0",
    );

  it("is needed while its step loses trainers, or a group is searched that ends them", () => {
    const search = { suspects: [0], trial: [0], alone: 0, endedBefore: 0 };
    expect([needed({}), needed({}, { losses: { 4: { ...lossy, count: 0, search } } })]).toEqual([true, true]);
    expect([needed({}, { losses: {} }), needed({}, { losses: { 4: { ...lossy, count: 0 } } })]).toEqual([false, false]);
    expect([3, 4].map((spared) => needed({}, { losses: { 4: { ...lossy, spared } } }))).toEqual([true, false]);
  });

  it("is not needed when it leaves, when the job ends, or when it is no trainer", () => {
    expect(needed({ p0: policy({ leaving: true }) })).toBe(false);
    expect(needed({ p0: replicaOf() })).toBe(false);
    expect(needed({}, { ending: { outcome: "done", reason: "", announced: false } })).toBe(false);
  });

  it("is not the only one while another one stays, be it run by a node or by somebody else", () => {
    expect(needed({ p1: policy() })).toBe(false);
    const gone = [policy({ leaving: true }), policy({ health: "RETIRED" }), policy({ health: "LEFT" }), replicaOf()];
    expect(gone.map((other) => needed({ p1: other }))).toEqual([true, true, true, true]);
    expect(needed({}, {}, { p0: memberOf("p0", 5) })).toBe(true);
    expect(needed({}, {}, { p0: memberOf("p0", 5), p9: memberOf("p9", 6) })).toBe(false);
  });

  it("is spared with a word to the operator, and its losses begin anew", () => {
    const group = groupOf({ losses: [1, 2, 3, 4, 5] });
    const state = fleetOf({ nodes, replicas: { p0: policy({ group }) }, patch: { losses: { 4: lossy } } });
    const { state: after, effects } = loseLife(state, "p0", { evidence: "x", by: "exit", node: "n1", isCounted: true });
    expect(after.fleet.replicas.p0).toMatchObject({ health: "HEALTHY", life: 2, group: { losses: [] } });
    expect(after.losses?.[4]).toMatchObject({ spared: 1 });
    expect(linesOf(effects)).toEqual(["! fleet.changed", "! alarm.raised"]);
  });
});
