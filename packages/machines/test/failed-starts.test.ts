/** A role of which nobody ever becomes ready, again and again for one reason, ends the job with that reason; one that was ready once does not. */
import type { ControllerState } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import { describe, expect, it } from "vitest";
import { noteFailedStart, planStarts } from "../src/controller/fleet/failed-starts.ts";
import { initialControllerState } from "../src/controller/state.ts";
import { bodiesOf, planWith, reportFrom, working } from "./states.ts";

const reason = "/srv/job/reward.mjs:3 can not be loaded: no key";
const fresh = (): ControllerState => initialControllerState(planWith());
const failing = (state: ControllerState, times: number, cause: (i: number) => string = () => reason): ControllerState =>
  Array.from({ length: times }).reduce<ControllerState>(
    (now, _, i) => noteFailedStart(now, "rollout", cause(i)),
    state,
  );

describe("starts that fail", () => {
  it("end the job at the sixth for one reason, with the reason", () => {
    expect(planStarts(failing(fresh(), 5))).toBeNull();
    expect(planStarts(failing(fresh(), 6))?.state.ending).toEqual({
      outcome: "failed",
      reason: `no rollout replica ever became ready: 6 starts failed, each with: ${reason}`,
      announced: false,
    });
  });

  it("do not end it for six reasons, nor remember reasons without bound", () => {
    const state = failing(fresh(), 100, (i) => `reason ${i}`);
    expect(planStarts(state)).toBeNull();
    expect(Object.keys(state.fleet.starts?.rollout ?? {})).toHaveLength(16);
  });

  it("do not end a job whose samplers had weights once, and are not counted there any more", () => {
    const held = working();
    const ready = planStarts(held)?.state ?? held;
    expect(ready.fleet.starts).toMatchObject({ policy: "ready", rollout: "ready" });
    const gone = failing({ ...ready, members: {} }, 50);
    expect(gone).toEqual({ ...ready, members: {} });
    expect(planStarts(gone)).toBeNull();
  });

  it("do not end it while another one of the role is there and may get on", () => {
    const state = control(fresh(), { type: "controller.elected", atMs: 0, term: 1 }).state;
    const body = { role: "rollout", host: "h", pid: 1, engineBuild: "b" } as const;
    const event = { type: "replica.register", from: "r9", role: "rollout", incarnation: "i1", atMs: 0, body } as const;
    const joined = control(state, event).state;
    expect(joined.members.r9).toBeDefined();
    expect(planStarts(failing(joined, 6))).toBeNull();
    expect(planStarts(failing({ ...joined, members: {} }, 6))?.state.ending?.reason).toContain(reason);
  });

  it("are counted from the words of processes that end, and public", () => {
    const state = control(fresh(), { type: "controller.elected", atMs: 0, term: 1 }).state;
    const node = { role: "node", host: "h", pid: 7, engineBuild: "" } as const;
    const say = (now: ControllerState, type: string, body: object) =>
      control(now, { type, from: "n0", role: "node", incarnation: "n0-i", atMs: 0, body } as never);
    const capacity = { policy: null, rollout: null, checkpoint: null };
    let now = say(say(state, "replica.register", node).state, "node.ready", { capacity }).state;
    for (let life = 1; life <= 6; life++) {
      const process = { id: "rollout-0", host: "h", pid: 100 + life, life };
      now = say(now, "process.started", process).state;
      const end = say(now, "process.exited", { ...process, code: 1, signal: null, words: reason });
      now = end.state;
      const said = bodiesOf(end.effects, "job.ended");
      expect(said.map((body) => body.reason.includes(reason))).toEqual(life < 6 ? [] : [true]);
    }
  });

  it("count a source of weights that no trainer can open, as long as there were no weights", () => {
    const start = control(fresh(), { type: "controller.elected", atMs: 0, term: 1 }).state;
    const body = { role: "policy", host: "h", pid: 1, engineBuild: "b" } as const;
    const join = { type: "replica.register", from: "p0", role: "policy", incarnation: "p0-i", atMs: 0, body } as const;
    let now = control(start, join).state;
    for (let tries = 0; tries < 600 && !now.ending; tries++) {
      now = control(now, { type: "controller.tick", atMs: (tries + 1) * 1_000 }).state;
      const order = now.members.p0?.order;
      if (order?.kind !== "weights.initialize") continue;
      const { lineage, version } = order;
      const cause = "model folder /x refused: it has no config.json";
      now = control(now, reportFrom(now, "p0", { kind: "weights.failed", body: { lineage, version, cause } })).state;
    }
    expect(now.ending?.reason).toContain(
      "no policy replica ever became ready: 6 starts failed, each with: model folder /x",
    );
  });
});
