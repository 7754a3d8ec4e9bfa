/** The fleet from the controller's side: nodes come and go, replicas are placed, restarted, scaled and given up. */
import { describe, expect, it } from "vitest";
import { Job } from "./fleet-job.ts";
import { bodiesOf } from "./states.ts";

describe("placing replicas", () => {
  it("gives the first node everything that is wanted, in one assignment", () => {
    const job = new Job().node("n0");
    expect(bodiesOf(job.said, "node.assign")).toHaveLength(1);
    expect(job.ids("n0")).toEqual(["policy-0", "rollout-0", "rollout-1"]);
  });

  it("goes to the emptiest node with room, and not over its capacity", () => {
    const job = new Job({ policy: 1, rollout: 5, checkpoint: 0 }).node("n0", { rollout: 1 }).node("n1");
    expect(job.ids("n0")).toEqual(["policy-0", "rollout-0"]);
    expect(job.ids("n1")).toEqual(["rollout-1", "rollout-2", "rollout-3", "rollout-4"]);
  });

  it("keeps policy replicas and checkpoint actors on one host, and rollouts anywhere", () => {
    const job = new Job({ policy: 2, rollout: 2, checkpoint: 1 })
      .node("n0", { rollout: 0, policy: 1 })
      .node("far", {}, "h2");
    expect(job.ids("n0")).toEqual(["policy-0", "checkpoint-0"]);
    expect(job.ids("far")).toEqual(["rollout-0", "rollout-1"]);
    expect(job.node("n1").ids("n1")).toEqual(["policy-1"]);
  });

  it("puts a checkpoint actor where it may run when trainers came first to a host that has no room for one", () => {
    const job = new Job({ policy: 2, rollout: 0, checkpoint: 1 }, { rolloutsServe: true })
      .node("n1", { policy: 1, checkpoint: 0 }, "h1")
      .node("n2", { policy: 0 }, "h2")
      .node("n0", { policy: 1 }, "h0");
    expect([job.ids("n1"), job.ids("n2")]).toEqual([["policy-0"], ["checkpoint-0"]]);
    const meant = new Job({ policy: 2, rollout: 0, checkpoint: 1 }, { rolloutsServe: true })
      .node("n1", { policy: 1, checkpoint: 0 }, "h1")
      .node("n0", { policy: 1 }, "h0");
    expect([meant.ids("n1"), meant.ids("n0")], "with a trainer, where one is").toEqual([
      ["policy-0"],
      ["policy-1", "checkpoint-0"],
    ]);
  });

  it("puts trainers first where files may be kept", () => {
    const job = new Job({ policy: 1, rollout: 0, checkpoint: 1 }).node("n9", { policy: 0 }, "h9");
    job.operate("fleet.cordon", { id: "n9" }).operate("fleet.scale", { policy: 0 });
    job.node("n1", { checkpoint: 0 }, "h1").node("n0", {}, "h0").operate("fleet.scale", { policy: 1 });
    expect(job.ids("n0")).toContain("policy-0");
  });

  it("puts nothing on a cordoned node until it is uncordoned", () => {
    const job = new Job().node("n0");
    job.operate("fleet.cordon", { id: "n0" }).operate("fleet.scale", { rollout: 3 });
    expect(job.ids("n0")).not.toContain("rollout-2");
    job.operate("fleet.uncordon", { id: "n0" });
    expect(job.ids("n0")).toContain("rollout-2");
  });

  it("puts nothing on a node whose host shows signs of a failure to come, and says which", () => {
    const job = new Job().node("n0").node("n1");
    job.report("n0", "node.signs", { signs: [{ kind: "gpu", detail: "GPU 0: 3 memory errors" }] });
    const alarm = {
      alarm: "signs",
      detail: expect.stringContaining("n0 may fail soon: GPU 0: 3 memory errors; it gets"),
    };
    expect(bodiesOf(job.said, "alarm.raised")).toMatchObject([alarm]);
    const before = job.ids("n0");
    job.operate("fleet.scale", { rollout: 6 });
    expect(job.ids("n0")).toEqual(before);
    job.report("n0", "node.signs", { signs: [] }).operate("fleet.scale", { rollout: 7 });
    expect(job.ids("n0"), "only an operator says that it is well again").toEqual(before);
    job.operate("fleet.uncordon", { id: "n0" }).operate("fleet.scale", { rollout: 8 });
    expect(job.ids("n0").length).toBeGreaterThan(before.length);
  });

  it("leaves the last node that takes new work as it is, whatever its host shows", () => {
    const heat = { signs: [{ kind: "heat", detail: "99 °C" }] };
    const job = new Job().node("n0").node("n1").report("n0", "node.signs", heat).report("n1", "node.signs", heat);
    expect(bodiesOf(job.said, "alarm.raised")).toMatchObject([{ detail: expect.stringContaining("muster cordon n1") }]);
    expect(job.state.fleet.cordoned).toEqual(["n0"]);
  });

  it("sends an assignment again that was not acknowledged, and none when nothing changes", () => {
    const job = new Job().node("n0");
    const { revision } = job.state.fleet;
    job.hear({ type: "controller.tick", atMs: 2_000 });
    expect(bodiesOf(job.said, "node.assign").map((body) => body.revision)).toEqual([revision + 1]);
    job.report("n0", "node.assigned", { revision: revision + 1 });
    expect(bodiesOf(job.hear({ type: "controller.tick", atMs: 60_000 }).said, "node.assign")).toEqual([]);
  });

  it("does not count a replica that was started by hand", () => {
    const job = new Job().join("guest", "rollout").node("n0");
    expect(job.ids("n0")).toEqual(["policy-0", "rollout-0", "rollout-1"]);
    job.operate("fleet.scale", { rollout: 0 });
    expect(job.state.members.guest?.health).toBe("healthy");
  });

  it("gives no managed replica the id of a guest", () => {
    expect(new Job().join("rollout-0", "rollout").node("n0").ids("n0")).toEqual(["policy-0", "rollout-1", "rollout-2"]);
  });
});

describe("a replica that ends", () => {
  it("is left to its node, which starts it again", () => {
    const job = new Job().node("n0").obey("n0");
    const before = job.assigned("n0");
    job.exit("n0", "rollout-0");
    expect(job.state.members["rollout-0"]).toBeUndefined();
    expect(job.health("rollout-0")).toBe("RESTARTING");
    expect(job.assigned("n0")).toEqual(before);
    expect(job.state.fleet.replicas["rollout-0"]?.deaths).toBe(1);
  });

  it("is asked for as another life when it left by itself although it is wanted", () => {
    const job = new Job().node("n0").obey("n0").exit("n0", "rollout-0", { code: 0 });
    expect(job.assigned("n0").find(({ id }) => id === "rollout-0")?.life).toBe(2);
  });

  it("is ended by its node when the detector evicts it while its process still runs", () => {
    const job = new Job().node("n0").obey("n0");
    const { incarnation } = job.state.members["rollout-0"] ?? { incarnation: "" };
    job.hear({ type: "verdict.dead", id: "rollout-0", incarnation, evidence: "silence" });
    expect(job.assigned("n0").find(({ id }) => id === "rollout-0")?.life).toBe(2);
    expect(job.health("rollout-0")).toBe("RESTARTING");
  });

  it("goes through STALE when it is back", () => {
    const job = new Job().node("n0").obey("n0").exit("n0", "rollout-0");
    job.report("n0", "process.started", { id: "rollout-0", host: "h", pid: 900, life: 2 });
    expect(job.health("rollout-0")).toBe("RESTARTING");
    job.join("rollout-0", "rollout", { life: 2 });
    expect(job.health("rollout-0")).toBe("STALE");
  });

  it("and is reported after its end as started is old news", () => {
    const job = new Job().node("n0").obey("n0").exit("n0", "rollout-0");
    job.report("n0", "process.started", { id: "rollout-0", host: "h", pid: 101, life: 1 });
    expect(job.state.fleet.replicas["rollout-0"]?.process).toBeNull();
  });

  it("is given up with an alarm when its node gives it up, and another id takes its place elsewhere", () => {
    const job = new Job().node("n0").obey("n0");
    job.report("n0", "process.retired", { id: "rollout-0", life: 6, deaths: 6, reason: "it keeps ending" });
    expect(job.health("rollout-0")).toBe("RETIRED");
    expect(bodiesOf(job.said, "alarm.raised")).toMatchObject([{ alarm: "retired" }]);
    expect(job.ids("n0")).toEqual(["policy-0", "rollout-1"]);
    expect(job.node("n1").ids("n1")).toEqual(["rollout-2"]);
  });

  it("ends a job that has not begun when no policy replica could ever start", () => {
    const job = new Job().node("n0");
    job.report("n0", "process.retired", { id: "policy-0", life: 6, deaths: 6, reason: "code 1" });
    expect(job.state.ending).toMatchObject({ outcome: "failed", reason: expect.stringContaining("policy-0") });
  });

  it("goes on where another policy replica is left, or has room", () => {
    const retired = { id: "policy-0", life: 6, deaths: 6, reason: "code 1" };
    const left = new Job({ policy: 2, rollout: 1, checkpoint: 0 }).node("n0");
    expect(left.report("n0", "process.retired", retired).state.ending).toBeNull();
    const room = new Job().node("n0").node("n1");
    expect(room.report("n0", "process.retired", retired).state.ending).toBeNull();
  });
});

describe("a node that is new", () => {
  it("has taken no assignment yet, whatever the life before it took", () => {
    const job = new Job().node("n0");
    job.report("n0", "node.assigned", { revision: job.state.fleet.nodes.n0?.revision ?? 0 });
    expect(job.state.fleet.nodes.n0?.acked).toBe(1);
    expect(job.node("n0").state.fleet.nodes.n0?.acked).toBe(0);
  });
});

describe("a node that is gone", () => {
  it("has its replicas placed elsewhere under the same ids, as other lives", () => {
    const job = new Job().node("n0").obey("n0").node("n1").obey("n1");
    job.operate("process.exited", {
      id: "n0",
      host: "h",
      pid: job.state.members.n0?.pid,
      code: null,
      signal: "SIGKILL",
    });
    expect(job.ids("n1")).toEqual(["policy-0", "rollout-0", "rollout-1"]);
    expect(job.assigned("n1").map(({ life }) => life)).toEqual([2, 2, 2]);
  });

  it("gets them back when it is the only one and comes back", () => {
    const job = new Job().node("n0").obey("n0");
    job.operate("process.exited", {
      id: "n0",
      host: "h",
      pid: job.state.members.n0?.pid,
      code: null,
      signal: "SIGKILL",
    });
    expect(job.state.fleet.nodes).toEqual({});
    job.node("n0");
    expect(job.assigned("n0").map(({ id, life }) => `${id} ${life}`)).toEqual([
      "policy-0 2",
      "rollout-0 2",
      "rollout-1 2",
    ]);
  });

  it("drains its replicas before it is released", () => {
    const job = new Job({ policy: 1, rollout: 1, checkpoint: 0 }).node("n0").obey("n0");
    job.report("n0", "replica.draining", { reason: "SIGTERM" });
    expect(Object.values(job.state.members).map(({ id, health }) => `${id} ${health}`)).toEqual([
      "n0 draining",
      "policy-0 draining",
      "rollout-0 draining",
    ]);
    expect(bodiesOf(job.said, "replica.stop")).toHaveLength(2);
    for (const id of ["policy-0", "rollout-0"]) {
      job.report(id, "replica.left", { reason: "drained" }, id.split("-")[0]);
      job.exit("n0", id, { code: 0 });
    }
    expect(job.state.members.n0?.order?.kind).toBe("replica.stop");
  });
});

describe("a node that leaves and is the only one", () => {
  it("keeps its checkpoint actor until nobody is left whose work it could save", () => {
    const job = new Job({ policy: 1, rollout: 1, checkpoint: 1 }).node("n0").obey("n0");
    job.report("n0", "replica.draining", { reason: "SIGTERM" });
    const leave = (id: string) => {
      job.report(id, "replica.left", { reason: "drained" }, id.split("-")[0]).exit("n0", id, { code: 0 });
      return job.state.members["checkpoint-0"]?.health;
    };
    expect(job.state.members["checkpoint-0"]?.health).toBe("healthy");
    expect(leave("rollout-0")).toBe("healthy");
    expect(leave("policy-0")).toBe("draining");
  });
});

describe("replicas that share a host", () => {
  const placed = (job: Job) => job.operate("fleet.scale", { policy: 2 }).state.fleet.replicas["policy-1"]?.node;
  const setting = (): Job => {
    const job = new Job({ policy: 1, rollout: 0, checkpoint: 0 }).node("n0", {}, "a").node("n1", {}, "b");
    job.state = { ...job.state, plan: { ...job.state.plan, rolloutsServe: false } };
    return job;
  };

  it("stay on it while a node of it takes replicas, and go elsewhere when none does", () => {
    expect(placed(setting())).toBe("n0");
    expect(placed(setting().operate("fleet.cordon", { id: "n0", commandId: "c" }))).toBe("n1");
    const ill = setting();
    const { incarnation } = ill.state.members.n0 ?? { incarnation: "" };
    ill.hear({ type: "verdict.suspect", id: "n0", incarnation, evidence: "silence", kind: "silence", silentMs: 1 });
    expect(placed(ill)).toBe("n1");
  });
});

describe("a node that leaves while others have room", () => {
  const setting = (far = "h"): Job => {
    const job = new Job({ policy: 1, rollout: 1, checkpoint: 0 }).node("n0").obey("n0");
    job.state = { ...job.state, plan: { ...job.state.plan, rolloutsServe: false } };
    return job.node("n1", {}, far);
  };
  const become = (job: Job, id: string, health: "HEALTHY" | "RETIRED"): void => {
    const { fleet } = job.state;
    const replica = fleet.replicas[id];
    if (replica)
      job.state = { ...job.state, fleet: { ...fleet, replicas: { ...fleet.replicas, [id]: { ...replica, health } } } };
    job.hear({ type: "controller.tick" });
  };
  const healthOf = (job: Job): object =>
    Object.fromEntries(Object.values(job.state.members).map(({ id, health }) => [id, health]));
  const leave = (job: Job, id: string): Job =>
    job.report(id, "replica.left", { reason: "drained" }, id.split("-")[0]).exit("n0", id, { code: 0 });

  it("keeps each replica until another one is healthy elsewhere", () => {
    const job = setting().operate("replica.drain", { id: "n0", commandId: "c1" });
    expect(job.ids("n0")).toEqual(["policy-0", "rollout-0"]);
    expect(job.ids("n1")).toEqual(["policy-1", "rollout-1"]);
    job.obey("n1");
    expect(healthOf(job)).toMatchObject({ "policy-0": "healthy", "rollout-0": "healthy" });
    become(job, "rollout-1", "HEALTHY");
    expect(healthOf(job)).toMatchObject({ "policy-0": "healthy", "rollout-0": "draining" });
    leave(job, "rollout-0");
    become(job, "policy-1", "HEALTHY");
    leave(job, "policy-0");
    expect(job.state.members.n0?.order?.kind).toBe("replica.stop");
    expect(Object.keys(job.state.fleet.replicas)).toEqual(["policy-1", "rollout-1"]);
  });

  it("lets trainers go first when the others are on a host that they cannot reach, and samplers not", () => {
    const job = setting("h2").operate("replica.drain", { id: "n0", commandId: "c1" });
    expect(healthOf(job)).toMatchObject({ "policy-0": "draining", "rollout-0": "healthy" });
    expect(job.ids("n1")).toEqual(["rollout-1"]);
    const joined = setting("h2");
    joined.state = { ...joined.state, plan: { ...joined.state.plan, rolloutsServe: true } };
    joined.operate("replica.drain", { id: "n0", commandId: "c1" });
    expect(healthOf(joined)).toMatchObject({ "policy-0": "healthy", "rollout-0": "healthy" });
  });

  it("waits for half of the time that it gives itself, when it was told to end", () => {
    const job = setting();
    const { drainMs } = job.state.plan.timing;
    job.report("n0", "replica.draining", { reason: "SIGTERM" }).obey("n1");
    job.hear({ type: "controller.tick", atMs: drainMs / 2 - 1 });
    expect(healthOf(job)).toMatchObject({ "policy-0": "healthy", "rollout-0": "healthy" });
    job.hear({ type: "controller.tick", atMs: drainMs / 2 });
    expect(healthOf(job)).toMatchObject({ "policy-0": "draining", "rollout-0": "draining" });
    leave(leave(job, "policy-0"), "rollout-0");
    expect(Object.keys(job.state.fleet.replicas)).toEqual(["policy-1", "rollout-1"]);
  });

  it("starts that time anew with each term", () => {
    const job = setting();
    const { drainMs } = job.state.plan.timing;
    job.report("n0", "replica.draining", { reason: "SIGTERM" }).obey("n1");
    job.hear({ type: "controller.elected", atMs: drainMs, term: 2 });
    expect(healthOf(job)).toMatchObject({ "rollout-0": "healthy" });
    job.hear({ type: "controller.tick", atMs: drainMs * 1.5 });
    expect(healthOf(job)).toMatchObject({ "rollout-0": "draining" });
  });

  it("tries another node when a successor is given up, and lets its replica go when there is none", () => {
    const job = setting().operate("replica.drain", { id: "n0", commandId: "c1" }).obey("n1");
    become(job, "rollout-1", "RETIRED");
    expect(healthOf(job)).toMatchObject({ "rollout-0": "draining" });
    const other = setting().operate("replica.drain", { id: "n0", commandId: "c1" }).obey("n1").node("n2");
    become(other, "rollout-1", "RETIRED");
    expect(healthOf(other)).toMatchObject({ "rollout-0": "healthy" });
    expect(other.ids("n2")).toEqual(["rollout-2"]);
  });

  it("needs no successors when the draining is taken back, nor when the node dies", () => {
    const job = setting().operate("replica.drain", { id: "n0", commandId: "c1" }).obey("n1");
    job.operate("command.cancel", { target: "c1", commandId: "c2" });
    expect(healthOf(job)).toMatchObject({ "rollout-0": "healthy", "rollout-1": "draining", "policy-1": "draining" });
    const dead = setting().operate("replica.drain", { id: "n0", commandId: "c1" }).obey("n1");
    const { pid } = dead.state.members.n0 ?? {};
    dead.operate("process.exited", { id: "n0", host: "h", pid, code: null, signal: "SIGKILL" });
    expect(healthOf(dead)).toMatchObject({ "rollout-0": "draining", "rollout-1": "healthy" });
    expect(dead.ids("n1")).toEqual(["policy-1", "rollout-1"]);
  });

  it("lets a replica go whose successor is one too many, and no other one for it", () => {
    const job = new Job({ policy: 1, rollout: 2, checkpoint: 0 }).node("n0", { rollout: 1 }).obey("n0");
    job.node("n1", { rollout: 1 }).obey("n1").node("n2");
    job.operate("replica.drain", { id: "n0", commandId: "c1" });
    expect(job.state.fleet.replicas["rollout-0"]?.replacedBy).toBe("rollout-2");
    job.operate("fleet.scale", { rollout: 1 });
    expect(healthOf(job)).toMatchObject({ "rollout-0": "draining", "rollout-1": "healthy" });
    expect(job.ids("n2")).toEqual(["policy-1"]);
  });

  it("follows a successor that has to move itself", () => {
    const job = setting().operate("replica.drain", { id: "n0", commandId: "c1" }).obey("n1").node("n2");
    job.operate("replica.drain", { id: "n1", commandId: "c2" }).obey("n2");
    expect(job.ids("n2")).toEqual(["policy-2", "rollout-2"]);
    become(job, "rollout-2", "HEALTHY");
    expect(job.state.fleet.replicas["rollout-1"]?.leaving).toBe(true);
    expect(healthOf(job)).toMatchObject({ "rollout-0": "draining", "rollout-1": "draining", "rollout-2": "healthy" });
  });
});

describe("the end of the job", () => {
  it("releases replicas first and nodes last", () => {
    const job = new Job({ policy: 1, rollout: 1, checkpoint: 0 })
      .node("n0")
      .obey("n0")
      .operate("job.stop", { reason: "so" });
    const stopped = () =>
      job.said.flatMap((effect) => ("kind" in effect && effect.kind === "replica.stop" ? [effect] : []));
    expect(stopped().map((effect) => "to" in effect && effect.to)).toEqual(["policy-0", "rollout-0"]);
    job.report("policy-0", "replica.left", { reason: "so" }, "policy");
    job.report("rollout-0", "replica.left", { reason: "so" }, "rollout");
    expect(stopped().map((effect) => "to" in effect && effect.to)).toEqual(["n0"]);
    job.report("n0", "replica.left", { reason: "so" });
    expect(job.state.stopped).toBe(true);
  });
});

describe("a replica that goes because the job is over", () => {
  it("is released, and not taken for dead and started again", () => {
    const job = new Job().node("n0").obey("n0").operate("job.stop", { reason: "enough" });
    for (const id of ["rollout-0", "rollout-1"]) {
      expect(job.health(id)).toBe("DRAINING");
      job.report(id, "replica.left", { reason: "enough" }, "rollout").exit("n0", id, { code: 0 });
      expect(job.health(id)).toBe("DRAINING");
    }
  });

  it("runs no more while the job still waits for another one, and neither does that one once it is evicted", () => {
    const job = new Job().node("n0").obey("n0").operate("job.stop", { reason: "enough" });
    job.report("rollout-0", "replica.left", { reason: "enough" }, "rollout").exit("n0", "rollout-0", { code: 0 });
    expect(job.ids("n0")).not.toContain("rollout-0");
    expect(job.ids("n0")).toContain("rollout-1");
    const { incarnation } = job.state.members["rollout-1"] ?? { incarnation: "" };
    job.hear({ type: "verdict.dead", id: "rollout-1", incarnation, evidence: "silence" });
    expect(job.ids("n0")).not.toContain("rollout-1");
  });
});

describe("too few healthy replicas", () => {
  it("are also checkpoint actors that have no room where the trainers are, said before the job begins", () => {
    const job = new Job({ policy: 1, rollout: 0, checkpoint: 1 })
      .node("n1", { checkpoint: 0 }, "h1")
      .node("n0", {}, "h0");
    expect(job.ids("n0"), "files do not cross without a network").toEqual([]);
    job.hear({ type: "controller.tick", atMs: 2_000 });
    const told = bodiesOf(job.hear({ type: "controller.tick", atMs: 19_000 }).said, "alarm.raised");
    const detail =
      "checkpoint: 1 waits for a node with room for it on h1, where the trainers are; start one there (muster node --capacity checkpoint=1), uncordon one, or scale down";
    expect(told).toEqual([{ alarm: "capacity", detail }]);
  });

  it("are no reason to stop: the operator is told what is missing, once, after the time that a death takes to notice", () => {
    const job = new Job().node("n0").obey("n0");
    job.state = { ...job.state, mesh: { ...job.state.mesh, epoch: 1 } };
    for (const id of ["rollout-0", "rollout-1"]) job.exit("n0", id);
    expect(bodiesOf(job.hear({ type: "controller.tick", atMs: 2_000 }).said, "alarm.raised")).toEqual([]);
    const told = bodiesOf(job.hear({ type: "controller.tick", atMs: 9_000 }).said, "alarm.raised");
    expect(told).toEqual([{ alarm: "capacity", detail: "rollout: 0 healthy, at least 1 needed" }]);
    expect(bodiesOf(job.hear({ type: "controller.tick", atMs: 9_500 }).said, "alarm.raised")).toEqual([]);
    expect(job.state.ending).toBeNull();
  });
});
