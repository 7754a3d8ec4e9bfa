/** Trainers that live and never arrive where the others wait for them. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import type { ControllerState } from "../src/controller/state.ts";
import { applyBuilt, applyMeshFailed } from "../src/controller/step/apply-step.ts";
import { planMesh } from "../src/controller/step/plan-mesh.ts";
import { bodiesOf, linesOf, reportFrom, working } from "./states.ts";

/** What is said of each epoch: by whom, and whom it missed. */
type Said = Readonly<Record<string, readonly string[]>>;

/** A job whose mesh was lost, and what becomes of it while epochs fail. */
class Meshes {
  state: ControllerState;
  readonly out: string[] = [];

  constructor(members: readonly string[]) {
    const state = working({ members: [...members, "r0"] });
    this.state = this.#planned({ ...state, mesh: { ...state.mesh, state: "broken", dueAtMs: 0 } });
  }

  fails(said: Said): this {
    const { epoch } = this.state.mesh;
    for (const [from, missing] of Object.entries(said)) {
      const body: Body<"mesh.failed"> = { epoch, cause: "they did not arrive", missing: [...missing] };
      this.state = applyMeshFailed(this.state, reportFrom(this.state, from, { kind: "mesh.failed", body })).state;
    }
    this.state = this.#planned({ ...this.state, nowMs: this.state.mesh.dueAtMs });
    return this;
  }

  ready(): this {
    const { epoch, members } = this.state.mesh;
    for (const from of members)
      this.state = applyBuilt(this.state, reportFrom(this.state, from, { kind: "mesh.built", body: { epoch } })).state;
    this.state = { ...this.state, mesh: { ...this.state.mesh, state: "broken", dueAtMs: 0 } };
    this.state = this.#planned(this.state);
    return this;
  }

  #planned(state: ControllerState): ControllerState {
    let next = state;
    for (let change = planMesh(next); change && next.mesh.state !== "building"; change = planMesh(next)) {
      this.out.push(...bodiesOf(change.effects, "member.died").map(({ id, evidence }) => `${id}: ${evidence}`));
      next = change.state;
      if (linesOf(change.effects).length > 0 && next.mesh.state === "building") break;
    }
    return next;
  }
}

const late: Said = { p0: ["p2"], p1: ["p2"], p2: [] };

describe("a trainer that most of the others miss", () => {
  it("is evicted after three meshes in a row, and the next one is built without it", () => {
    const job = new Meshes(["p0", "p1", "p2"]).fails(late).fails(late);
    expect([job.out, job.state.mesh.members]).toEqual([[], ["p0", "p1", "p2"]]);
    job.fails(late);
    expect(job.out).toEqual(["p2: not there in 3 meshes in a row, as most of the others say"]);
    expect(job.state.mesh).toMatchObject({ members: ["p0", "p1"], state: "building" });
    expect(job.state.mesh.absences).toBeUndefined();
  });

  it("begins anew when it arrived once", () => {
    const job = new Meshes(["p0", "p1", "p2"]).fails(late).fails(late).ready().fails(late).fails(late);
    expect(job.out).toEqual([]);
    expect(job.state.mesh.absences).toEqual({ p2: 2 });
  });

  it("is evicted from a mesh of two by the one that waits, and not where both miss each other", () => {
    const alone: Said = { p0: ["p1"], p1: [] };
    expect(new Meshes(["p0", "p1"]).fails(alone).fails(alone).fails(alone).out).toHaveLength(1);
    const both: Said = { p0: ["p1"], p1: ["p0"] };
    expect(new Meshes(["p0", "p1"]).fails(both).fails(both).fails(both).fails(both).out).toEqual([]);
  });
});

describe("nobody is evicted", () => {
  it.each<[string, readonly string[], Said]>([
    [
      "by one voice among many, however often it says so",
      ["p0", "p1", "p2"],
      { p0: ["p2", "p2", "p1"], p1: [], p2: [] },
    ],
    ["by one voice of three that misses one only", ["p0", "p1", "p2"], { p0: ["p2"], p1: [], p2: [] }],
    [
      "when the members fall into two halves",
      ["p0", "p1", "p2", "p3"],
      { p0: ["p2", "p3"], p1: ["p2", "p3"], p2: ["p0", "p1"], p3: ["p0", "p1"] },
    ],
    ["by who is no rank, or for being missed by itself", ["p0", "p1"], { r0: ["p1"], p1: ["p1"] }],
  ])("%s", (_, members, said) => {
    const job = new Meshes(members);
    for (let epoch = 0; epoch < 5; epoch++) job.fails(said);
    expect(job.out).toEqual([]);
    expect(job.state.mesh.members).toEqual(members);
  });
});
