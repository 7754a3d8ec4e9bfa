import { describe, expect, it } from "vitest";
import { LossChecker } from "../src/loss-checker.ts";
import { shippedConfig } from "./support/config.ts";
import { decisionOf, memberOf, Trial } from "./support/decisions.ts";

const { timing } = shippedConfig();
const all = { p0: memberOf("p0", "policy"), p1: memberOf("p1", "policy"), r0: memberOf("r0", "rollout") };
const { r0: _, ...withoutSampler } = all;
const { p1: __, ...withoutTrainer } = all;

const running = { step: 4, attempt: 1, state: "running" };
const mesh = { epoch: 2, state: "ready", members: ["p0", "p1"] };
const job = { members: all, step: running, mesh, ending: null, weights: null };
const lost = { ...job, members: withoutSampler };

/** What is found of one decision. */
function foundIn(before: object, after: object, type = "replica.left"): readonly string[] {
  const trial = new Trial();
  new LossChecker(trial, trial.judge, { timing, isSimple: false }).decided(decisionOf(type, before, after));
  return trial.broken;
}

describe("the loss of a sampler", () => {
  it("may leave a step that is computed as it is", () => {
    expect(foundIn(job, lost)).toEqual([]);
  });

  it.each([
    ["its attempt", { step: { ...running, attempt: 2 } }],
    ["the step itself", { step: { ...running, step: 5 } }],
    ["the epoch", { mesh: { ...mesh, epoch: 3 } }],
    ["the state of the mesh", { mesh: { ...mesh, state: "broken" } }],
  ])("may not change %s (L5)", (_what, change) => {
    expect(foundIn(job, { ...lost, ...change })).toEqual(["L5"]);
  });

  const retried = { ...lost, step: { ...running, attempt: 2 } };

  it("is no matter where nothing is computed, or the job ends", () => {
    expect(foundIn({ ...job, step: { ...running, state: "sampling" } }, retried)).toEqual([]);
    expect(foundIn(job, { ...retried, ending: { outcome: "failed" } })).toEqual([]);
  });

  it("does not explain what a trainer's loss, or no loss, leads to", () => {
    expect(foundIn(job, { ...retried, members: withoutTrainer })).toEqual([]);
    expect(foundIn(job, { ...retried, members: { ...all, r1: memberOf("r1", "rollout") } })).toEqual([]);
  });

  it.each(["controller.tick", "controller.elected", "step.voted"])("is not the cause of what comes with %s", (type) => {
    expect(foundIn(job, retried, type)).toEqual([]);
  });
});
