/** Which parts of a version are published, for whom, and what becomes of those who come too late. */
import { describe, expect, it } from "vitest";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { planOverdue } from "../src/controller/orders.ts";
import { type ControllerState, withMember, without } from "../src/controller/state.ts";
import { planStepOutcome } from "../src/controller/step/plan-step.ts";
import { applyFailed, applyHeld } from "../src/controller/weights/apply-weights.ts";
import { servesTraining, servingHolders, wholeHolders } from "../src/controller/weights/parts.ts";
import { planMemory } from "../src/controller/weights/plan-memory.ts";
import { planPublish } from "../src/controller/weights/plan-publish.ts";
import { planPulls } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, linesOf, memberOf, planWith, reportFrom, sectionsOf, stepping, voteFor, working } from "./states.ts";

const plan = planWith({ memoryEvery: 0, checkpointEverySteps: 0, steps: 9 });
const held = { lineage: 0, version: 3 };
const votes = { p0: voteFor(4), p1: voteFor(4) };
const kept = (step: number) => ({ step, lineage: 0, version: step, sections: sectionsOf(step) });
const memory = { held: null, asked: null, retryAtMs: 0, failures: 0, isTooLarge: false, misses: 0 };

/** The job with a checkpoint actor, in which nobody serves the `training` part of what it holds. */
function unkept(patch: Partial<ControllerState> = {}, of = plan): ControllerState {
  const state = working({ plan: of, members: ["p0", "p1", "r0", "c0"], patch });
  return withMember(withMember(state, "p0", { training: [] }), "p1", { training: [] });
}

const join = (state: ControllerState, id: string): ControllerState => ({
  ...state,
  members: { ...state.members, [id]: memberOf(id, 9) },
});

const isKept = (state: ControllerState): readonly string[] =>
  bodiesOf(planStepOutcome(state)?.effects ?? [], "step.apply")[0]?.keep ?? ["no commit"];

describe("what the order that makes a commit live keeps", () => {
  const job = (of = plan, members = ["p0", "p1", "r0", "c0"]) => stepping(votes, { plan: of, members });

  it.each<[string, ControllerState, readonly string[]]>([
    ["nothing that nobody will read", job(), []],
    ["what a trainer that waits will read", join(job(), "p2"), ["training"]],
    [
      "nothing for a trainer that still pulls an older version: it is asked for when that is there",
      withMember(join(job(), "p2"), "p2", { order: { kind: "weights.pull", ...held, dueAtMs: 9_000 } }),
      [],
    ],
    ["nothing for one that leaves", withMember(join(job(), "p2"), "p2", { health: "draining" }), []],
    [
      "what a trainer will read that computed something else",
      stepping({ ...votes, p2: voteFor(4, "b") }, { plan, members: ["p0", "p1", "p2", "r0"] }),
      ["training"],
    ],
    ["what a checkpoint will read that is due", job({ ...plan, checkpointEverySteps: 2 }), ["training"]],
    ["nothing when the next checkpoint is due later", job({ ...plan, checkpointEverySteps: 5 }), []],
    ["the last step", job({ ...plan, steps: 4 }), ["training"]],
    ["nothing for a checkpoint that nobody is there to write", job({ ...plan, steps: 4 }, ["p0", "p1", "r0"]), []],
    ["what memory will read", job({ ...plan, memoryEvery: 1 }), ["training"]],
    [
      "nothing for a memory that is new enough",
      withMember(job({ ...plan, memoryEvery: 3 }), "c0", { memory: { ...memory, held: kept(3) } }),
      [],
    ],
    [
      "nothing for a memory that is about to be new enough",
      withMember(job({ ...plan, memoryEvery: 3 }), "c0", {
        memory: { ...memory, asked: { ...kept(3), dueAtMs: 9e3 } },
      }),
      [],
    ],
    [
      "what a memory will read that is late",
      withMember(job({ ...plan, memoryEvery: 3 }), "c0", { memory: { ...memory, held: kept(2) } }),
      ["training"],
    ],
    [
      "nothing for a memory that has no room",
      withMember(job({ ...plan, memoryEvery: 1 }), "c0", { memory: { ...memory, isTooLarge: true, retryAtMs: 9_000 } }),
      [],
    ],
    [
      "what a checkpoint will read that could not be had of an older version",
      { ...job(), checkpoints: { wantedStep: 3, dueAtMs: 0, saved: null, failures: 0 } },
      ["training"],
    ],
  ])("is %s", (_, state, expected) => {
    expect(isKept(state)).toEqual(expected);
  });

  it("stays in the order when it is sent again, whatever became of who waited", () => {
    const state = planStepOutcome(join(job(), "p2"))?.state as ControllerState;
    const later = { ...state, members: without(state.members, "p2"), nowMs: 60_000 };
    const again = bodiesOf(planOverdue(later)?.effects ?? [], "step.apply");
    expect(again.map(({ keep }) => keep)).toEqual([["training"], ["training"]]);
  });
});

describe("a part that was not kept", () => {
  const publishes = (state: ControllerState): string[] => linesOf(planPublish(state)?.effects ?? []);

  it("is asked of one of its holders when a trainer comes, and the trainer waits for that", () => {
    const state = join(unkept(), "p2");
    expect(planPulls(state)).toBeNull();
    const asked = planPublish(state);
    expect(bodiesOf(asked?.effects ?? [], "weights.publish")).toEqual([{ ...held, parts: ["training"] }]);
    expect(linesOf(asked?.effects ?? [])).toEqual(["p0 weights.publish"]);
    expect(planPublish(asked?.state as ControllerState)).toBeNull();
  });

  it("is pulled once its holder says where it is, from nobody else", () => {
    const asked = planPublish(join(unkept(), "p2"))?.state as ControllerState;
    const body = { ...held, sections: sectionsOf(3), addresses: ["unix:p0"], bytes: 16, durationMs: 1 };
    const say = (training: string[]): ControllerState =>
      applyHeld(asked, reportFrom(asked, "p0", { kind: "weights.held", body: { ...body, training } })).state;
    // A report that crossed the order answers nothing.
    expect(say([]).members.p0?.order?.kind).toBe("weights.publish");
    const told = say(["unix:p0/training"]);
    expect(told.members.p0?.order).toBeNull();
    const [pull] = bodiesOf(planPulls(told)?.effects ?? [], "weights.pull");
    expect(pull?.holders).toEqual([{ id: "p0", addresses: ["unix:p0"], training: ["unix:p0/training"] }]);
  });

  it("is asked of nobody while a step runs: who waits then has it of the next version", () => {
    const state = join(unkept(), "p2");
    expect(publishes({ ...state, step: { ...state.step, state: "running", dueAtMs: 9_000 } })).toEqual([]);
  });

  it("is asked of the next one when the first dies, fails, or does not answer", () => {
    const asked = planPublish(join(unkept(), "p2"))?.state as ControllerState;
    expect(publishes({ ...asked, members: without(asked.members, "p0") })).toEqual(["p1 weights.publish"]);
    const body = { ...held, cause: "no memory" };
    const failed = applyFailed(asked, reportFrom(asked, "p0", { kind: "weights.failed", body }));
    expect(bodiesOf(failed.effects, "alarm.raised")[0]?.detail).toBe(
      "p0 could not publish the training part of version 3: no memory",
    );
    expect(publishes(failed.state)).toEqual(["p1 weights.publish"]);
    const silent = planOverdue({ ...asked, nowMs: 60_000 })?.state as ControllerState;
    expect(publishes(silent)).toEqual(["p1 weights.publish"]);
  });

  it("is asked of nobody when who came has gone, leaves, or has it from memory", () => {
    const state = join(unkept(), "p2");
    expect(publishes({ ...state, members: without(state.members, "p2") })).toEqual([]);
    expect(publishes(withMember(state, "p2", { health: "draining" }))).toEqual([]);
    const serving = { addresses: ["unix:c0"], training: ["unix:c0/training"] };
    const inMemory = withMember(state, "c0", { ...serving, memory: { ...memory, held: kept(3) } });
    expect(publishes(inMemory)).toEqual([]);
    const [pull] = bodiesOf(planPulls(inMemory)?.effects ?? [], "weights.pull");
    expect(pull?.holders).toEqual([{ id: "c0", ...serving }]);
  });

  it("is asked of who can be reached, and can be had only there", () => {
    const state = withMember(join(unkept(), "p2"), "p0", { addresses: [] });
    expect(publishes(state)).toEqual(["p1 weights.publish"]);
    const served = [{}, { training: [] }, { training: ["t"] }, { addresses: [], training: ["t"] }, { addresses: [] }];
    expect(served.map((patch) => servesTraining(memberOf("p0", 1, patch)))).toEqual([true, false, true, false, false]);
  });

  it("is asked of somebody else than a suspect that has it", () => {
    const state = withMember(join(unkept(), "p2"), "p0", { training: ["unix:p0/t"], health: "suspect" });
    expect(publishes(state)).toEqual(["p1 weights.publish"]);
  });

  it("is asked of a suspect that answered sooner than of a healthy one that did not", () => {
    const state = withMember(withMember(join(unkept(), "p2"), "p0", { unanswered: 1 }), "p1", { health: "suspect" });
    const [first] = publishes(state);
    expect(publishes(withMember(state, "p1", { unanswered: 1 }))).toEqual(["p0 weights.publish"]);
    expect(first).toBe("p1 weights.publish");
  });

  it("is asked for a checkpoint that became due, which then names who serves it", () => {
    const checkpoints = { wantedStep: 3, dueAtMs: 9_000, saved: null, failures: 0 };
    const state = unkept({ checkpoints });
    expect(planCheckpoint(state)).toBeNull();
    expect(publishes(state)).toEqual(["p0 weights.publish"]);
    const told = withMember(state, "p1", { training: ["unix:p1/training"] });
    expect(publishes(told)).toEqual([]);
    const [save] = bodiesOf(planCheckpoint(told)?.effects ?? [], "checkpoint.save");
    expect(save?.holders.map(({ id }) => id)).toEqual(["p1"]);
  });

  it("is asked for the checkpoint of the first step, too, and for none that is written", () => {
    const checkpoints = { wantedStep: 1, dueAtMs: 9_000, saved: null, failures: 0 };
    const first = unkept({ checkpoints });
    const state = { ...first, step: { ...first.step, step: 2 } };
    expect(publishes(state)).toEqual(["p0 weights.publish"]);
    const saved = { step: 1, version: 1, path: "runs/1", host: "h" };
    expect(publishes({ ...state, checkpoints: { ...checkpoints, saved } })).toEqual([]);
  });

  it("is asked for a leaving holder that nobody follows, too, so that it can become durable", () => {
    const state = unkept({ checkpoints: { wantedStep: 3, dueAtMs: 9_000, saved: null, failures: 0 } });
    const leaving = withMember(withMember(state, "p0", { health: "draining" }), "p1", { health: "draining" });
    expect(publishes(leaving)).toEqual(["p0 weights.publish"]);
  });

  it("is asked for a checkpoint actor that comes late, once: for the disk and for its memory", () => {
    const late = unkept({}, { ...plan, memoryEvery: 3 });
    expect(planMemory(late)).toBeNull();
    expect(publishes(late)).toEqual(["p0 weights.publish"]);
    const told = withMember(late, "p0", { training: ["unix:p0/training"] });
    expect(linesOf(planMemory(told)?.effects ?? [])).toEqual(["c0 weights.pull"]);
    expect(publishes({ ...late, members: without(late.members, "c0") })).toEqual([]);
  });

  it("of holders that do not say so is with the rest, as it was before there were parts", () => {
    const state = join(working({ plan, members: ["p0", "p1", "r0"] }), "p2");
    expect(publishes(state)).toEqual([]);
    const [pull] = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");
    expect(pull?.holders.map(({ id, training }) => [id, training])).toEqual([
      ["p1", undefined],
      ["p0", undefined],
    ]);
  });
});

describe("a checkpoint that is wanted of a version of which nobody has all parts any more", () => {
  const wanted = { wantedStep: 3, dueAtMs: 9_000, saved: null, failures: 0 };

  it("is wanted of the next version instead", () => {
    const state = working({ plan, version: 4, members: ["p0", "c0"], patch: { checkpoints: wanted } });
    expect(planCheckpoint(state)?.state.checkpoints.wantedStep).toBe(4);
  });

  it("is left alone while somebody writes it", () => {
    const state = working({ plan, version: 4, members: ["p0", "c0"], patch: { checkpoints: wanted } });
    const order = { kind: "checkpoint.save", ...held, dueAtMs: 9_000 } as const;
    expect(planCheckpoint(withMember(state, "c0", { order }))).toBeNull();
  });
});

it("an order names 64 sources at most, and 16,384 processes in all", () => {
  const sources = (of: number, count = 70) => {
    const patch = of > 0 ? { ranks: { of, bytes: 1, digest: "d" } } : {};
    return Array.from({ length: count }, (_, i) => memberOf(`p${i}`, i + 1, patch as object));
  };
  const named = [0, 1, 256, 512, 16_384, 32_000].map((of) => wholeHolders(sources(of)).length);
  expect(named).toEqual([64, 64, 64, 32, 1, 1]);
  expect([servingHolders(sources(0)), servingHolders(sources(0, 3))].map(({ length }) => length)).toEqual([64, 3]);
});
