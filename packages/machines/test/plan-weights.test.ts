import { describe, expect, it } from "vitest";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { planMesh } from "../src/controller/step/plan-mesh.ts";
import { applyHeld } from "../src/controller/weights/apply-weights.ts";
import { planInitialWeights, planPulls } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, linesOf, memberOf, planWith, reportFrom, sectionsOf, working } from "./states.ts";

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

  it("are made by the first one where all are suspects, and by a healthy one before it", () => {
    const health = "suspect" as const;
    const both = withMember(withMember(start("p0", "p1"), "p0", { health }), "p1", { health });
    expect(linesOf(planInitialWeights(both)?.effects ?? [])).toEqual(["p0 weights.initialize"]);
    const one = withMember(both, "p1", { health: "healthy" });
    expect(linesOf(planInitialWeights(one)?.effects ?? [])).toEqual(["p1 weights.initialize"]);
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

describe("pulls across hosts", () => {
  const hosts: Record<string, string> = { p0: "h0", r0: "h0", r1: "h1", r2: "h1", r3: "h2", r4: "h3" };
  const plan = planWith({ rolloutsServe: true });

  /** The rollouts are behind; all but those named in `silent` have served before. */
  function acrossHosts({ silent = [] as readonly string[], serve = true } = {}): ControllerState {
    const ids = Object.keys(hosts);
    let state = working({ plan: serve ? plan : planWith(), members: ids });
    for (const id of ids) {
      const addresses = silent.includes(id) ? [] : [`tcp:${id}`];
      state = withMember(state, id, {
        host: hosts[id] ?? "",
        addresses,
        ...(id.startsWith("r") ? { held: behind } : {}),
      });
    }
    return state;
  }

  const sourcesOf = (state: ControllerState): Record<string, string> => {
    const effects = planPulls(state)?.effects ?? [];
    const orders = effects.flatMap((effect) =>
      effect.type === "command" && effect.kind === "weights.pull" ? [effect] : [],
    );
    return Object.fromEntries(orders.map(({ to, body }) => [to, body.holders.map(({ id }) => id).join(" ")]));
  };

  it("make a chain of one replica of each host; the others read the memory of theirs", () => {
    expect(sourcesOf(acrossHosts())).toEqual({
      r0: "p0",
      r1: "p0",
      r2: "r1 p0",
      r3: "r1 p0",
      r4: "r3 r1 p0",
    });
  });

  it("make a chain of which a replica is told the eight links before it", () => {
    const rollouts = Array.from({ length: 11 }, (_, i) => `r${i}`);
    let state = working({ plan, members: ["p0", ...rollouts] });
    for (const [i, id] of ["p0", ...rollouts].entries())
      state = withMember(state, id, { host: `h${i}`, addresses: [`tcp:${id}`], ...(i > 0 ? { held: behind } : {}) });
    expect(sourcesOf(state)).toMatchObject({ r8: "r7 r6 r5 r4 r3 r2 r1 r0 p0", r10: "r9 r8 r7 r6 r5 r4 r3 r2 p0" });
  });

  it("wait for the first of a host, when nobody knows yet where it will serve, until it holds the version or failed", () => {
    const first = acrossHosts({ silent: ["r0", "r1", "r2", "r3", "r4"] });
    const change = planPulls(first);
    expect(sourcesOf(first)).toEqual({ r0: "p0", r1: "p0", r3: "p0", r4: "p0" });
    const waiting = change?.state as ControllerState;
    expect(planPulls(waiting)).toBeNull();
    const came = withMember(waiting, "r1", { held, order: null, addresses: ["tcp:r1"] });
    expect(sourcesOf(came)).toEqual({ r2: "r1 p0" });
    const failed = withMember(waiting, "r1", { order: null, retryAtMs: 9_000 });
    expect(sourcesOf(failed)).toEqual({ r2: "p0" });
    expect(sourcesOf(withMember(waiting, "r1", { health: "suspect" }))).toEqual({ r2: "p0" });
  });

  it("come from the policy replica of the same host, also when it is only about to have the version", () => {
    const order = { kind: "step.apply", lineage: 0, version: 3, dueAtMs: 9_000 } as const;
    const base = acrossHosts();
    const policy = memberOf("p1", 20, { host: "h1", held: behind, order, addresses: ["unix:p1"] });
    const state = { ...base, members: { ...base.members, p1: policy } };
    expect(sourcesOf(state)).toMatchObject({ r1: "p1 p0", r2: "p1 p0" });
  });

  it("cross to a host once, whichever of its replicas is free first: the one that is told later waits for the other", () => {
    const order = { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9_000 } as const;
    const busy = { ...order, version: 2 }; // with the version before
    const late = withMember(withMember(acrossHosts(), "r1", { order: busy }), "r2", { order });
    expect(sourcesOf(late)).not.toHaveProperty("r1");
    expect(sourcesOf(withMember(late, "r1", { order: null }))).toMatchObject({ r1: "r2 p0" });
    const [third, second] = [{ order: { ...order, dueAtMs: 9_002 } }, { order: { ...order, dueAtMs: 9_001 } }];
    const told = withMember(withMember(acrossHosts(), "r1", third), "r2", second);
    const more = { ...told, members: { ...told.members, r5: memberOf("r5", 9, { host: "h1", held: behind }) } };
    expect(sourcesOf(more).r5?.split(" ")[0]).toBe("r2");
    expect(sourcesOf(more).r3).toBe("r2 p0"); // r1 will have it in the memory of r2, and nothing to pass on
  });

  it("make no chain from one that came later, so that no two wait for each other", () => {
    const order = { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9_000 } as const;
    const later = withMember(withMember(acrossHosts(), "r3", { order }), "r4", { order });
    expect(sourcesOf(later)).toMatchObject({ r1: "p0" });
  });

  it("come from any holder for a late joiner, and from the trainers alone where rollouts do not serve", () => {
    let state = acrossHosts();
    for (const id of ["r0", "r1", "r3", "r4"]) state = withMember(state, id, { held });
    const joiner = memberOf("r9", 9, { host: "h9" });
    const joined = { ...state, members: { ...state.members, r9: joiner } };
    expect(sourcesOf(joined).r9?.split(" ").sort()).toEqual(["p0", "r0", "r1", "r3", "r4"]);
    const silent = ["r0", "r1", "r2", "r3", "r4"];
    expect(sourcesOf(acrossHosts({ silent, serve: false }))).toEqual({
      r0: "p0",
      r1: "p0",
      r2: "p0",
      r3: "p0",
      r4: "p0",
    });
  });
});

describe("who may be gone", () => {
  it.each([
    ["is suspected", { health: "suspect" as const }],
    ["hangs", { health: "hung" as const }],
    ["was suspected again and again", { recoveries: Array(11).fill(1) }],
  ])("is the last choice: it %s", (_, patch) => {
    const state = withMember(working(), "r0", { held: { lineage: 0, version: 2 } });
    const first = (id: string) =>
      bodiesOf(planPulls(withMember(state, id, patch))?.effects ?? [], "weights.pull")[0]?.holders[0]?.id;
    expect([first("p0"), first("p1")]).toEqual(["p1", "p0"]);
  });
});

describe("a suspect", () => {
  it("serves on, but nobody is sent to it", () => {
    const state = withMember(withMember(working({ version: 3 }), "r0", { held: behind }), "p0", { health: "suspect" });
    const [pull] = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");
    expect(pull?.holders.map(({ id }) => id)).toEqual(["p1"]);
    expect(planPulls(withMember(state, "p1", { health: "suspect" }))).toBeNull();
  });
});

describe("trainers of several processes with a shard each", () => {
  const ranksOf = (id: string, of = 2) => ({ of, bytes: 40 * of, digest: `ranks of ${id}` });
  const said = () => ({
    lineage: 0,
    version: 3,
    sections: sectionsOf(3),
    addresses: ["tcp:p0"],
    training: ["tcp:p0t"],
    ranks: ranksOf("p0"),
    bytes: 1,
    durationMs: 1,
  });
  const heldBy = (state: ControllerState): ControllerState =>
    applyHeld(state, reportFrom(state, "p0", { kind: "weights.held", body: said() })).state;
  const of = (state: ControllerState) => bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");

  it("are named with all their processes: to samplers where they serve the weights, to trainers all of it", () => {
    const state = heldBy(withMember(withMember(working(), "p1", { held: null }), "r0", { held: null }));
    const [policy, rollout] = of(state);
    expect(policy?.holders.find(({ id }) => id === "p0")?.ranks).toEqual(ranksOf("p0"));
    expect(rollout?.holders.find(({ id }) => id === "p0")?.ranks).toEqual(ranksOf("p0"));
  });

  it("are so few in an order that whoever pulls need not read of more than 16,384 processes, and one at least", () => {
    const ids = Array.from({ length: 20 }, (_, i) => `p${i}`);
    let state = withMember(working({ members: [...ids, "r0"] }), "r0", { held: null });
    for (const id of ids) state = withMember(state, id, { ranks: ranksOf(id, 2_048) });
    expect(of(state)[0]?.holders).toHaveLength(8);
    for (const id of ids) state = withMember(state, id, { ranks: ranksOf(id, 32_000) });
    expect(of(state)[0]?.holders).toHaveLength(1);
  });

  it("are asked by every sampler itself: nobody who took regions serves them", () => {
    const plan = planWith({ rolloutsServe: true });
    const ids = ["p0", "r0", "r1", "r2"];
    let state = working({ plan, members: ids });
    for (const [i, id] of ids.entries())
      state = withMember(state, id, { host: `h${i}`, addresses: [`tcp:${id}`], ...(i > 0 ? { held: behind } : {}) });
    expect(of(state).map(({ holders }) => holders.map(({ id }) => id).join(" "))).toEqual(["p0", "r0 p0", "r1 r0 p0"]);
    expect(of(heldBy(state)).map(({ holders }) => holders.map(({ id }) => id).join(" "))).toEqual(["p0", "p0", "p0"]);
  });

  it("meet by rank beside the version that each of them holds, and 65,536 processes at most", () => {
    const ids = Array.from({ length: 20 }, (_, i) => `p${i}`);
    let state = working({ members: [...ids, "r0", "r1"] });
    for (const id of ids)
      state = withMember(state, id, { ranks: ranksOf(id, 4_096), addresses: [`tcp:${id}`], host: id });
    const change = planMesh({ ...state, mesh: { ...state.mesh, epoch: 0, members: [], state: "none", built: [] } });
    const [build] = bodiesOf(change?.effects ?? [], "mesh.build");
    expect(build?.members).toHaveLength(16);
    const { incarnation = "" } = state.members.p1 ?? {};
    const ranks = { ...ranksOf("p1", 4_096), ...held, addresses: ["tcp:p1"] };
    expect(build?.members[1]).toEqual({ id: "p1", incarnation, ranks });
  });
});
