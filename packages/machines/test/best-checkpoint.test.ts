/** Which checkpoint is the best at held-out prompts, and what becomes of it. */
import { describe, expect, it } from "vitest";
import { applySaved } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { noteBest } from "../src/controller/checkpoints/best-checkpoint.ts";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { goBack } from "../src/controller/checkpoints/plan-restore.ts";
import type { ControllerEffect } from "../src/controller/events.ts";
import { noteHeldOut } from "../src/controller/groups/held-out.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, planWith, reportFrom, working } from "./states.ts";

const plan = planWith({ checkpointEverySteps: 2, checkpointKeep: 2, steps: 99 });
const start = (version: number): ControllerState => working({ plan, version, members: ["p0", "r0", "c0"] });

/** A job as it goes on; what was said of best checkpoints is in `said`. */
class Job {
  state: ControllerState;
  readonly said: string[] = [];

  constructor(version: number) {
    this.state = start(version);
  }

  saved(step: number): this {
    const body = { step, lineage: 0, version: step, path: `/c/${step}`, manifestDigest: "m", bytes: 1, durationMs: 1 };
    return this.#take(applySaved(this.state, reportFrom(this.state, "c0", { kind: "checkpoint.saved", body })));
  }

  evaluated(version: number, correct: number): this {
    return this.#take(noteBest(noteHeldOut(this.state, { version, prompts: 100, correct })));
  }

  #take({ state, effects }: { readonly state: ControllerState; readonly effects: readonly ControllerEffect[] }): this {
    this.state = state;
    this.said.push(...bodiesOf(effects, "checkpoint.best").map(({ path, correct }) => `${path}: ${correct}`));
    return this;
  }
}

describe("the best checkpoint", () => {
  it("is named when its evaluation ends, and when a better one or one as good comes, and not when a worse one does", () => {
    const job = new Job(8).saved(2).evaluated(2, 40).saved(4).evaluated(4, 70).saved(6).evaluated(6, 70).saved(8);
    expect(job.said).toEqual(["/c/2: 40", "/c/4: 70", "/c/6: 70"]);
    expect(job.evaluated(8, 30).said).toHaveLength(3);
    expect(job.state.heldOut?.checkpoint).toMatchObject({ step: 6, path: "/c/6" });
  });

  it("is found whether the evaluation ends first or the checkpoint is durable first", () => {
    expect(new Job(8).evaluated(2, 40).saved(2).said).toEqual(["/c/2: 40"]);
    expect(new Job(8).saved(2).evaluated(2, 40).said).toEqual(["/c/2: 40"]);
  });

  it("is never a version without a checkpoint", () => {
    expect(new Job(8).saved(2).evaluated(3, 90).evaluated(2, 10).said).toEqual(["/c/2: 10"]);
  });

  it("is named in every order to save, so that it stays", () => {
    const job = new Job(6).saved(2).evaluated(2, 90).saved(4).evaluated(4, 10);
    const due = planCheckpoint(job.state);
    const ordered = planCheckpoint(due?.state ?? job.state);
    expect(bodiesOf(ordered?.effects ?? [], "checkpoint.save")).toMatchObject([{ best: { step: 2, version: 2 } }]);
  });

  it("of a line that is left behind is forgotten, and one from before it is not", () => {
    const job = new Job(6).saved(2).evaluated(2, 50).saved(4).evaluated(4, 90);
    const to = (step: number): ControllerState => {
      const kept = { step, version: step, lineage: 0, sections: [] };
      return goBack(job.state, "test", kept as never).state;
    };
    expect(to(4).heldOut?.checkpoint).toMatchObject({ step: 4 });
    expect(to(3).heldOut?.checkpoint).toBeUndefined();
    const first = [{ version: 2, prompts: 100, correct: 50 }];
    expect([to(3).heldOut?.results, to(2).heldOut?.results]).toEqual([first, first]);
  });

  it("is looked for among a bounded number of results", () => {
    const job = new Job(999);
    for (let version = 1; version <= 500; version++) job.evaluated(version, 50);
    expect(job.state.heldOut?.results).toHaveLength(64);
  });
});
