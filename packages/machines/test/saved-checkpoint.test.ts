/** A checkpoint is believed only where it can be one of the job's own; what is restored must have the manifest that was reported. */
import { describe, expect, it } from "vitest";
import { applySaved } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { applyRestored } from "../src/controller/checkpoints/apply-restored.ts";
import { goBack } from "../src/controller/checkpoints/plan-restore.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, planWith, reportFrom, working } from "./states.ts";

const root = "/checkpoints";
const whole = { step: 3, lineage: 0, version: 3, manifestDigest: "m3", bytes: 1, durationMs: 1 };
const path = `${root}/step-00000003-v3-t1`;

const start = (): ControllerState =>
  working({ members: ["p0", "c0"], plan: planWith({ checkpointDirectory: root, checkpointReplicas: 1 }) });
const saved = (state: ControllerState, patch: Partial<typeof whole & { path: string }> = {}) => {
  const lineage = state.weights?.lineage ?? 0;
  const body = { ...whole, lineage, path, ...patch };
  return applySaved(state, reportFrom(state, "c0", { kind: "checkpoint.saved", body }));
};

describe("a checkpoint that is reported durable", () => {
  it("is kept with the digest of its manifest, and restored by it", () => {
    const { state } = saved(start());
    expect(state.checkpoints.saved).toMatchObject({ path, manifestDigest: "m3" });
    const back = goBack(state, "a test").state.restore.source;
    expect(back).toEqual({ kind: "checkpoint", path, manifestDigests: ["m3"] });
  });

  it.each([
    [
      "elsewhere",
      { path: "/tmp/step-00000003-v3-t1" },
      'path = "/tmp/step-00000003-v3-t1" is no checkpoint in /checkpoints',
    ],
    ["below another folder", { path: `${root}/x/step-00000003-v3-t1` }, "is no checkpoint"],
    ["above its folder", { path: `${root}/../step-00000003-v3-t1` }, "is no checkpoint"],
    ["of an older step than its version", { step: 2, version: 4 }, "step 2, version 4 is not committed"],
    ["of the step that is trained next", { step: 4 }, "step 4, version 3 is not committed"],
    ["of a version of before", { version: 2 }, 'path = "step-00000003-v3-t1" is not of step 3, version 2'],
    [
      "in a folder with a very long name",
      { path: `/${"x".repeat(300)}` },
      `path = "/${"x".repeat(255)}" is no checkpoint`,
    ],
    ["under another name", { path: `${root}/newest` }, "is no checkpoint"],
    ["of another step than its name says", { path: `${root}/step-00000002-v2-t1` }, "is not of step 3, version 3"],
    [
      "of a step that nobody has trained",
      { step: 50_000, version: 50_000, path: `${root}/step-00050000-v50000-t1` },
      "is not committed",
    ],
  ])("%s is refused, and the operator hears why", (_, lie, says) => {
    const { state, effects } = saved(start(), lie);
    expect(state.checkpoints.saved).toEqual(start().checkpoints.saved);
    expect(state.history).toEqual(start().history);
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toContain(says);
  });
});

describe("a job whose journal is lost", () => {
  const checkpoint = {
    step: 3,
    lineage: 0,
    version: 3,
    path,
    host: "h",
    ledger: { trained: 6, aborted: 1, quarantined: 1 },
  };

  it.each([
    ["its digest, where its manifest has one", { manifestDigest: "m3" }, { manifestDigests: ["m3"] }],
    ["its name alone otherwise", {}, {}],
  ])("goes on after its newest checkpoint, by %s", (_, known, wanted) => {
    const { state, effects } = applyRestored(start(), {
      type: "controller.restored",
      atMs: 0,
      checkpoint: { ...checkpoint, ...known },
    });
    expect(state.restore).toEqual({ lineage: 1, version: 3, source: { kind: "checkpoint", path, ...wanted } });
    expect(state.checkpoints.saved).toEqual({ step: 3, version: 3, path, host: "h", ...known });
    expect(state.step.step).toBe(4);
    expect(state.ledger).toEqual({ admitted: 8, trained: 6, aborted: 1, quarantined: 1 });
    expect(bodiesOf(effects, "alarm.raised")).toEqual([
      {
        alarm: "store-lost",
        detail:
          "the broker's store is lost: going on from checkpoint step-00000003-v3-t1 after step 3 in lineage 1; what was sampled and trained since is done again",
      },
    ]);
  });

  it("is told of as one that goes on where it was over", () => {
    const { effects } = applyRestored(start(), {
      type: "controller.restored",
      atMs: 0,
      checkpoint: { ...checkpoint, isEnd: true },
    });
    expect(bodiesOf(effects, "alarm.raised")).toEqual([
      {
        alarm: "prolonged",
        detail: "the job was over and goes on from checkpoint step-00000003-v3-t1 after step 3 in lineage 1",
      },
    ]);
  });
});
