/** Trainers whose machines compute other bits are told apart in the handshake of a mesh, before a step. */
import { engineKindsMax } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { mustWait } from "../src/controller/members/evictions.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { applyBuilt } from "../src/controller/step/apply-step.ts";
import { enginesOf } from "../src/controller/step/fingerprints.ts";
import { planMesh } from "../src/controller/step/plan-mesh.ts";
import { bodiesOf, linesOf, planWith, reportFrom, stepping } from "./states.ts";

type Level = NonNullable<ControllerState["plan"]["agreement"]>;

/** An epoch that is being built of p0, p1, p2; `fingerprint` is that of the mesh before. */
function building(level: Level | null = null, fingerprint?: string): ControllerState {
  const state = stepping({}, { plan: planWith(level ? { agreement: level } : {}), members: ["p0", "p1", "p2", "r0"] });
  const before = fingerprint ? { fingerprint, engines: { p0: { build: `torch-${fingerprint}`, fingerprint } } } : {};
  const mesh = { ...state.mesh, state: "building", built: [], ...before } as const;
  return { ...state, mesh, step: { ...state.step, state: "sampling" } };
}

/** All join, each with its fingerprint; `null` says none, as a worker does that is older. */
function joined(state: ControllerState, said: Readonly<Record<string, string | null>>) {
  return Object.entries(said).reduce(
    (change, [id, fingerprint]) => {
      const engine = fingerprint === null ? {} : { engine: { build: `torch-${fingerprint}`, fingerprint } };
      const body = { epoch: state.mesh.epoch, ...engine };
      return applyBuilt(change.state, reportFrom(change.state, id, { kind: "mesh.built", body }));
    },
    { state, effects: [] } as ReturnType<typeof applyBuilt>,
  );
}

const refused = ({ effects }: ReturnType<typeof applyBuilt>): readonly string[] =>
  linesOf(effects).filter((line) => line.endsWith("replica.fenced"));

describe("a trainer with another fingerprint", () => {
  it("is evicted before a step, with both members, both builds and the way out, and the others go on without it", () => {
    const out = joined(building(), { p0: "a", p1: "b", p2: "a" });
    expect(linesOf(out.effects)).toEqual(["! member.died", "p1 replica.fenced", "! alarm.raised"]);
    const [{ reason } = { reason: "" }] = bodiesOf(out.effects, "replica.fenced");
    expect(reason).toMatch(
      /^p1 \(engine build torch-b\) computes other bits than p0 \(engine build torch-a\): .* is b, and theirs is a\./,
    );
    expect(reason).toMatch(/set job\.agreement = "leader", or "weights"/);
    const next = planMesh(out.state)?.state;
    expect(next?.mesh).toMatchObject({ state: "building", members: ["p0", "p2"], fingerprint: "a" });
    const stands = joined(next ?? out.state, { p0: "a", p2: "a" });
    expect(stands.state.mesh.state).toBe("ready");
  });

  it("is not the majority, in the first mesh; of two it is not the first rank", () => {
    expect(refused(joined(building(), { p0: "b", p1: "a", p2: "a" }))).toEqual(["p0 replica.fenced"]);
    expect(refused(joined(building(), { p2: "b", p0: "a", p1: null }))).toEqual(["p2 replica.fenced"]);
  });

  it("is not one of the mesh that stood, however many join it", () => {
    const out = joined(building(null, "a"), { p0: "a", p1: "b", p2: "b" });
    expect(refused(out)).toEqual(["p1 replica.fenced", "p2 replica.fenced"]);
  });

  it("comes back after a pause only, also when its process is known to have ended", () => {
    expect(mustWait(joined(building(), { p0: "a", p1: "b", p2: "a" }).state, "p1")).toBe(true);
  });

  it.each(["weights", "leader"] as const)("is taken where bits need not be equal: %s", (level) => {
    const out = joined(building(level), { p0: "a", p1: "b", p2: "c" });
    expect(out.state.mesh.state).toBe("ready");
    expect(refused(out)).toEqual([]);
  });
});

describe("a mesh that stands", () => {
  it("says what its members compute with, each kind once and with how many have it", () => {
    const out = joined(building("leader"), { p0: "a", p1: "b", p2: "a" });
    expect(bodiesOf(out.effects, "mesh.changed")).toEqual([
      {
        epoch: out.state.mesh.epoch,
        members: ["p0", "p1", "p2"],
        engines: [
          { build: "torch-a", fingerprint: "a", members: 2 },
          { build: "torch-b", fingerprint: "b", members: 1 },
        ],
      },
    ]);
    expect(enginesOf(out.state.mesh)).toEqual({ engines: bodiesOf(out.effects, "mesh.changed")[0]?.engines });
  });

  it("says no more kinds than its message holds, and nothing where nobody says one", () => {
    const members = Array.from({ length: 1_024 }, (_, i) => `p${i}`);
    const engines = Object.fromEntries(members.map((id) => [id, { build: "b", fingerprint: id }]));
    const { mesh } = building();
    expect(enginesOf({ ...mesh, members, engines }).engines).toHaveLength(engineKindsMax);
    expect(enginesOf({ ...mesh, members, engines: {} })).toEqual({});
    expect(
      bodiesOf(joined(building(), { p0: null, p1: null, p2: null }).effects, "mesh.changed")[0],
    ).not.toHaveProperty("engines");
  });
});

describe("a trainer without a fingerprint", () => {
  it("is taken beside any other", () => {
    const out = joined(building(), { p0: null, p1: "a", p2: null });
    expect(out.state.mesh).toMatchObject({ state: "ready", fingerprint: "a" });
  });

  it("leaves the tables as they were, where all are so", () => {
    const { mesh } = joined(building(), { p0: null, p1: null, p2: null }).state;
    expect(mesh.state).toBe("ready");
    expect(mesh).not.toHaveProperty("engines");
    expect(mesh).not.toHaveProperty("fingerprint");
  });
});

it("the fingerprint of a mesh goes with the last of its members", () => {
  const stood = building(null, "a");
  const ready: ControllerState = { ...stood, mesh: { ...stood.mesh, state: "broken", dueAtMs: 0 } };
  expect(planMesh(ready)?.state.mesh.fingerprint).toBe("a");
  const strangers = Object.fromEntries(
    Object.entries(ready.members).map(([id, one]) => [id, { ...one, joinedSeq: 99 }]),
  );
  expect(planMesh({ ...ready, members: strangers })?.state.mesh).not.toHaveProperty("fingerprint");
});

it.each([
  ["has said what it computes with", { p1: { build: "torch-b", fingerprint: "b" } }],
  ["has said nothing yet", {}],
])("whoever was about to join a mesh whose last member dies is right by itself: it %s", (_, said) => {
  const joining = building(null, "a");
  const mesh = { ...joining.mesh, members: ["p0", "p1"], engines: { ...joining.mesh.engines, ...said } };
  const { p0: _gone, p2: _none, ...members } = joining.members;
  const alone = planMesh({ ...joining, mesh, members })?.state;
  expect(alone?.mesh).toMatchObject({ state: "building", members: ["p1"] });
  const built = joined(alone as ControllerState, { p1: "b" });
  expect(refused(built)).toEqual([]);
  expect(built.state.mesh).toMatchObject({ state: "ready", fingerprint: "b" });
});

it("a fingerprint is known over an epoch that does not come to stand, by those who had it before", () => {
  const broken = (state: ControllerState): ControllerState => ({
    ...state,
    mesh: { ...state.mesh, state: "broken", dueAtMs: 0 },
  });
  const again = planMesh(broken(planMesh(broken(building(null, "a")))?.state as ControllerState))?.state;
  expect(refused(joined(again as ControllerState, { p0: "a", p1: "b", p2: "b" }))).toHaveLength(2);
});
