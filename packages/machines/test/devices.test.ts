/** Devices of nodes: who gets which, when there are too few, and that nobody gets one that another has. */
import { describe, expect, it } from "vitest";
import { Job } from "./fleet-job.ts";
import { bodiesOf } from "./states.ts";

const devices = { policy: 1, rollout: 2, checkpoint: 0 };
const eight = ["0", "1", "2", "3", "4", "5", "6", "7"];

/** A job whose trainer needs a device and whose samplers need two. */
const jobWith = (wanted = { policy: 1, rollout: 2, checkpoint: 0 }) => new Job(wanted, { devices });

const held = (job: Job, node: string) =>
  Object.fromEntries(job.assigned(node).map(({ id, devices: own }) => [id, own?.join() ?? null]));

describe("placing replicas with devices", () => {
  it("gives each replica as many as its role needs, and tells the node which", () => {
    const job = jobWith({ policy: 1, rollout: 2, checkpoint: 1 }).node("n0", {}, "h", eight);
    expect(held(job, "n0")).toEqual({ "policy-0": "0", "rollout-0": "1,2", "rollout-1": "3,4", "checkpoint-0": "" });
  });

  it("says nothing of devices in a job that gives none", () => {
    expect(held(new Job().node("n0", {}, "h", eight), "n0")).toEqual({
      "policy-0": null,
      "rollout-0": null,
      "rollout-1": null,
    });
  });

  it("goes to the node that has enough of its own, and splits no replica over two", () => {
    const job = jobWith().node("n0", {}, "h", ["0", "1", "2"]).node("n1", {}, "h2", ["0"]);
    expect(held(job, "n0")).toEqual({ "policy-0": "0", "rollout-0": "1,2" });
    expect(job.ids("n1")).toEqual([]);
    job.node("n2", {}, "h2", ["1", "2"]);
    expect(held(job, "n2")).toEqual({ "rollout-1": "1,2" });
  });

  it("gives the devices of a replica away once it is gone and its process has ended, not before", () => {
    const job = jobWith().node("n0", {}, "h", ["0", "1", "2", "3", "4"]).obey("n0");
    job.operate("fleet.scale", { rollout: 1 }).operate("fleet.scale", { rollout: 2 });
    expect(job.state.fleet.replicas["rollout-1"]?.leaving).toBe(true);
    expect(job.ids("n0"), "no room yet").toEqual(["policy-0", "rollout-0", "rollout-1"]);
    job.report("rollout-1", "replica.left", { reason: "so" }, "rollout");
    expect(job.ids("n0"), "its process may still be there").not.toContain("rollout-2");
    job.exit("n0", "rollout-1", { code: 0 });
    expect(held(job, "n0")).toEqual({ "policy-0": "0", "rollout-0": "1,2", "rollout-2": "3,4" });
  });

  it("keeps the devices of a replica that dies and starts again", () => {
    const job = jobWith().node("n0", {}, "h", ["0", "1", "2", "3", "4"]).obey("n0");
    const before = held(job, "n0");
    job.exit("n0", "rollout-0").operate("fleet.scale", { rollout: 3 });
    expect(held(job, "n0")).toEqual(before);
  });

  it("gives what was on a lost node devices of the next one", () => {
    const job = jobWith().node("n0", {}, "h", ["0", "1", "2", "3", "4"]).obey("n0");
    const { incarnation = "", pid } = job.state.members.n0 ?? {};
    job.hear({ type: "verdict.dead", id: "n0", incarnation, evidence: `process ${pid} is silent` });
    expect(Object.values(job.state.fleet.replicas).map((replica) => replica.devices)).toEqual([[], [], []]);
    job.node("n1", {}, "h", ["5", "6", "7", "8", "9"]);
    expect(held(job, "n1")).toEqual({ "policy-0": "5", "rollout-0": "6,7", "rollout-1": "8,9" });
  });

  it("has a successor wait for devices of its own while the old one works", () => {
    const job = jobWith({ policy: 1, rollout: 1, checkpoint: 0 }).node("n0", {}, "h", ["0", "1", "2"]).obey("n0");
    job.operate("replica.replace", { id: "rollout-0", commandId: "c1" });
    expect(job.state.fleet.replicas["rollout-1"]).toMatchObject({ node: null });
    expect(job.state.fleet.replicas["rollout-0"]?.leaving).toBe(false);
    job.node("n1", {}, "h2", ["0", "1"]);
    expect(held(job, "n1")).toEqual({ "rollout-1": "0,1" });
  });

  it("puts the successor of one that was given up where that was", () => {
    const job = jobWith({ policy: 1, rollout: 1, checkpoint: 0 }).node("n0", {}, "h", ["0", "1", "2"]).obey("n0");
    job.exit("n0", "rollout-0").report("n0", "process.retired", { id: "rollout-0", life: 1, deaths: 6, reason: "so" });
    job.operate("replica.replace", { id: "rollout-0", commandId: "c1" });
    expect(held(job, "n0")).toEqual({ "policy-0": "0", "rollout-1": "1,2" });
  });

  it("goes on under the next controller with the same devices", () => {
    const job = jobWith().node("n0", {}, "h", eight).obey("n0");
    const before = held(job, "n0");
    job.hear({ type: "controller.elected", atMs: 5_000, term: 2 }).operate("fleet.scale", { rollout: 3 });
    expect(held(job, "n0")).toEqual({ ...before, "rollout-2": "5,6" });
  });
});

describe("too few devices", () => {
  it("have replicas wait, and the operator read who waits, for how many, and what to do", () => {
    const job = jobWith({ policy: 1, rollout: 3, checkpoint: 0 }).node("n0", {}, "h", ["0", "1", "2", "3"]);
    job.hear({ type: "controller.tick", atMs: 1 });
    const told = bodiesOf(job.hear({ type: "controller.tick", atMs: 30_000 }).said, "alarm.raised");
    expect(told).toMatchObject([
      {
        alarm: "capacity",
        detail:
          "rollout: 2 wait, each for 2 devices of one node (devices.rollout = 2; free: n0 1 of 4); start a node with free devices (muster node --devices), scale down, or lower devices.rollout",
      },
    ]);
    expect(bodiesOf(job.hear({ type: "controller.tick", atMs: 60_000 }).said, "alarm.raised")).toEqual([]);
    job.operate("fleet.scale", { rollout: 1 });
    expect(job.state.fleet.shortage).toBeNull();
  });
});

describe("a device that is asked for twice", () => {
  it("is refused before its node may run anything, with who has it and what to do", () => {
    const job = jobWith().node("n0", {}, "h", ["0", "1", "2"]);
    job.join("n1", "node", { host: "h", devices: ["2", "3"] });
    expect(bodiesOf(job.said, "replica.refused")).toEqual([
      {
        reason:
          "devices = 2,3: 2 of h belongs to n0; give the nodes of one host different devices, for example --devices 0-3 and --devices 4-7, or end n0 first",
      },
    ]);
    expect(job.state.members.n1).toBeUndefined();
    expect(job.node("n2", {}, "other", ["2", "3"]).state.members.n2, "numbers count on one host").toBeDefined();
  });

  it("is known on every host by the name that its driver gives it", () => {
    const job = jobWith().node("n0", {}, "h", ["GPU-1a2b"]);
    job.join("n1", "node", { host: "container", devices: ["GPU-1a2b"] });
    expect(bodiesOf(job.said, "replica.refused")).toHaveLength(1);
  });

  it("is refused within one node", () => {
    const job = jobWith();
    job.join("n0", "node", { devices: ["0", "1", "0"] });
    expect(bodiesOf(job.said, "replica.refused")).toEqual([
      { reason: "devices = 0,1,0: 0 is there twice; name each device once" },
    ]);
  });

  it("is no reason to refuse a node where no role gets any, nor the next life of the same node", () => {
    const without = new Job().node("n0", {}, "h", ["0"]).node("n1", {}, "h", ["0"]);
    expect(without.state.members.n1).toBeDefined();
    expect(jobWith().node("n0", {}, "h", ["0"]).node("n0", {}, "h", ["0"]).state.members.n0).toBeDefined();
  });
});
