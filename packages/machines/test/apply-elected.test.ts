/** What a controller that takes over repeats to each member, and in which order the planners look at a state. */
import { control } from "@muster/machines/internal";
import { expect, it } from "vitest";
import { repeatedTo } from "../src/controller/apply-elected.ts";
import { type ControllerState, type Mesh, withMember, without } from "../src/controller/state.ts";
import { bodiesOf, linesOf, stepping, voteFor, working } from "./states.ts";

const repeated = (state: ControllerState, id: string): string[] => {
  const member = state.members[id];
  return member ? linesOf(repeatedTo(state, member)) : [];
};

it("its place in a mesh that is being built, while all of its members are there", () => {
  const meshIn = (state: Mesh["state"]): ControllerState => {
    const job = working();
    return { ...job, mesh: { ...job.mesh, state } };
  };
  expect([repeated(meshIn("building"), "p0"), repeated(meshIn("building"), "r0")]).toEqual([
    ["admit p0", "p0 mesh.build"],
    ["admit r0"],
  ]);
  expect(repeated(meshIn("ready"), "p0")).toEqual(["admit p0"]);
  const lost = meshIn("building");
  expect(repeated({ ...lost, members: without(lost.members, "p1") }, "p0")).toEqual(["admit p0"]);
});

it("its part in the step that runs, until it has voted, and its leases, with the version that it holds", () => {
  const state = stepping({ p1: voteFor(4) });
  expect([repeated(state, "p0"), repeated(state, "p1"), repeated(state, "r0")]).toEqual([
    ["admit p0", "p0 step.run"],
    ["admit p1"],
    ["admit r0"],
  ]);
  const leases = { "1-1": { holder: "r0", items: [], dueAtMs: 9_000 } };
  const leased = { ...working(), leases };
  expect(repeated(leased, "r0")).toEqual(["admit r0", "r0 groups.lease"]);
  expect(repeated(withMember(leased, "r0", { held: null }), "r0")).toEqual(["admit r0"]);
});

it("who may come back does so before what is overdue has its end", () => {
  const order = { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 1_000 } as const;
  const owing = withMember(working(), "p0", { order, unanswered: 2 });
  const body = { role: "rollout", host: "h", pid: 7, engineBuild: "b" } as const;
  const { effects } = control(
    { ...owing, waiting: { r9: { incarnation: "i9", body } } },
    { type: "controller.tick", atMs: 1_000 },
  );
  const lines = linesOf(effects);
  expect(lines.slice(0, 1)).toEqual(["admit r9"]);
  expect(bodiesOf(effects, "member.died").map(({ id }) => id)).toEqual(["p0"]);
});
