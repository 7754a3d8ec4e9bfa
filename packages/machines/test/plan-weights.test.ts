import { describe, expect, it } from "vitest";
import { planInitialWeights, planPulls } from "../src/controller/plan-weights.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { bodiesOf, linesOf, memberOf, working } from "./states.ts";

const held = { lineage: 0, version: 3 };
const behind = { lineage: 0, version: 2 };

describe("initial weights", () => {
  const start = (...ids: string[]): ControllerState => {
    const members = Object.fromEntries(ids.map((id, i) => [id, memberOf(id, i + 1)]));
    return working({ patch: { weights: null, members } });
  };

  it("are made by the first policy replica that comes, and by nobody else", () => {
    const change = planInitialWeights(start("r0", "p1", "p0"));
    expect(linesOf(change?.effects ?? [])).toEqual(["p1 weights.initialize"]);
    expect(planInitialWeights(change?.state as ControllerState)).toBeNull();
  });

  it("come from where the state says: the source of the job, or a checkpoint in another lineage", () => {
    const restore = { lineage: 2, version: 6, source: { kind: "checkpoint", path: "runs/6" } } as const;
    const change = planInitialWeights({ ...start("p0"), restore });
    expect(bodiesOf(change?.effects ?? [], "weights.initialize")).toEqual([restore]);
    expect(change?.state.members.p0?.order).toEqual({
      kind: "weights.initialize",
      lineage: 2,
      version: 6,
      dueAtMs: 61_000,
    });
  });

  it("are made by the next one when the first may not be asked now", () => {
    const state = withMember(start("p0", "p1"), "p0", { retryAtMs: 1_001 });
    expect(linesOf(planInitialWeights(state)?.effects ?? [])).toEqual(["p1 weights.initialize"]);
  });

  it("are not made when there are weights, or nobody could make them", () => {
    expect(planInitialWeights(working())).toBeNull();
    expect(planInitialWeights(start("r0", "c0"))).toBeNull();
  });
});

describe("pulls", () => {
  it("go to every free replica that is behind, from those that hold the version", () => {
    const base = working({ members: ["p0", "p1", "r0", "r1", "c0"] });
    const state = withMember(withMember(base, "p1", { held: behind }), "r1", { held: null });
    const change = planPulls(state);
    expect(linesOf(change?.effects ?? [])).toEqual(["p1 weights.pull", "r1 weights.pull"]);
    expect(change?.state.members.r1?.order).toEqual({ kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 3_000 });
    expect(planPulls(change?.state as ControllerState)).toBeNull();
  });

  it("of a policy replica include the optimizer, of a rollout replica only the weights", () => {
    const state = withMember(withMember(working(), "p1", { held: null }), "r0", { held: null });
    const [policy, rollout] = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");
    expect(policy?.sections.map(({ name }) => name)).toEqual(["weights", "optimizer"]);
    expect(rollout?.sections.map(({ name }) => name)).toEqual(["weights"]);
  });

  it("of a policy replica name policy replicas only; those of a rollout replica fall back on others", () => {
    const base = working({ members: ["p0", "p1", "r0", "r1"] });
    const serving = withMember(base, "r0", { addresses: ["unix:r0"] });
    const state = withMember(withMember(serving, "p1", { held: null }), "r1", { held: null });
    const [policy, rollout] = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");
    expect(policy?.holders.map(({ id }) => id)).toEqual(["p0"]);
    expect(rollout?.holders.map(({ id }) => id).sort()).toEqual(["p0", "r0"]);
  });

  it("are spread: receivers that come one after another begin with different holders", () => {
    let state = working({ members: ["p0", "p1", "p2", "r0", "r1", "r2"] });
    for (const id of ["r0", "r1", "r2"]) state = withMember(state, id, { held: behind });
    const firsts = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull").map(({ holders }) => holders[0]?.id);
    expect(new Set(firsts)).toEqual(new Set(["p0", "p1", "p2"]));
  });

  it("never name more holders than a message may carry", () => {
    const ids = Array.from({ length: 40 }, (_, i) => `p${i}`);
    const state = withMember(working({ members: [...ids, "r0"] }), "r0", { held: null });
    expect(bodiesOf(planPulls(state)?.effects ?? [], "weights.pull")[0]?.holders).toHaveLength(16);
  });

  it.each([
    ["holds the version", { held }],
    ["wants to leave", { held: behind, health: "draining" as const }],
    [
      "has another order",
      { held: behind, order: { kind: "step.apply", lineage: 0, version: 3, dueAtMs: 9_000 } as const },
    ],
    ["failed a moment ago", { held: behind, retryAtMs: 1_001 }],
  ])("are not for a replica that %s", (_, patch) => {
    expect(planPulls(withMember(working(), "p1", patch))).toBeNull();
  });

  it("wait until somebody holds the version and serves it", () => {
    const nobody = withMember(withMember(working(), "p0", { held: behind }), "p1", { held: behind });
    expect(planPulls(nobody)).toBeNull();
    const silent = withMember(withMember(working(), "p0", { addresses: [] }), "p1", { held: behind });
    expect(planPulls(silent)).toBeNull();
  });
});
