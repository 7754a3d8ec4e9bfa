/** Replicas of several processes: placed all or none, begun and ended as one, whoever of them ends. */
import type { ControllerPlan } from "@muster/machines/controller";
import { describe, expect, it } from "vitest";
import { Job } from "./fleet-job.ts";
import { bodiesOf } from "./states.ts";

const processes = { policy: 1, rollout: 4, checkpoint: 0 };

const jobWith = (patch: Partial<ControllerPlan> = {}, wanted = { policy: 1, rollout: 1, checkpoint: 0 }) =>
  new Job(wanted, { processes, ...patch });

const several = (patch: Partial<ControllerPlan> = {}) => {
  const job = jobWith({ rolloutsServe: true, ...patch });
  job.hasNetwork = true;
  return job;
};

const placesOf = (job: Job, ...nodes: readonly string[]) =>
  Object.fromEntries(nodes.map((node) => [node, job.ranks(node).map(({ id, rank }) => `${id}.${rank}`)]));

const all = ["rollout-0.0", "rollout-0.1", "rollout-0.2", "rollout-0.3"];

/** A job whose sampler runs: two of its ranks on each of two hosts. */
const running = () =>
  several()
    .node("p", { rollout: 0 }, "a")
    .node("n0", { rollout: 2 }, "a")
    .node("n1", { rollout: 2 }, "b")
    .obey("p")
    .obeyRanks("n0", "n1");

/** All ranks end, but for the last. */
const endOthers = (job: Job) =>
  job.exitRank("n0", "rollout-0", 0).exitRank("n0", "rollout-0", 1).exitRank("n1", "rollout-0", 2);

it("an end that names no rank is that of rank 0", () => {
  const job = running();
  const { pid, life } = job.processOf("rollout-0", 0) ?? {};
  job.report("n0", "process.exited", { id: "rollout-0", host: "a", pid, life, code: null, signal: "SIGKILL" });
  expect(job.state.fleet.replicas).toEqual(running().exitRank("n0", "rollout-0", 0).state.fleet.replicas);
});

it.each([
  ["SIGKILL", 1],
  ["SIGTERM", 1],
  ["SIGSEGV", 0],
])("an end by %s is a loss from outside, or a crash", (signal, losses) => {
  expect(running().exitRank("n1", "rollout-0", 2, { signal }).state.outsideLosses ?? []).toHaveLength(losses);
});

it("the loss of a node ends the life of a replica that had a process there, and is no death of its program", () => {
  const job = running();
  const { incarnation } = job.state.members.n1 ?? { incarnation: "" };
  job.hear({ type: "verdict.dead", id: "n1", incarnation, evidence: "silence" });
  expect(job.state.members["rollout-0"]).toBeUndefined();
  expect(job.state.fleet.replicas["rollout-0"]).toMatchObject({ deaths: 0, life: 2, group: { losses: [] } });
});

it("what is left of a life whose node is gone is forgotten when its own node says that it has ended", () => {
  const job = running();
  const [first, second] = [0, 1].map((rank) => job.processOf("rollout-0", rank)?.pid ?? 0);
  const { incarnation } = job.state.members.n1 ?? { incarnation: "" };
  job.hear({ type: "verdict.dead", id: "n1", incarnation, evidence: "silence" });
  const left = () => job.state.fleet.replicas["rollout-0"]?.group?.leftovers.map(({ pid }) => pid);
  const ends = (node: string, pid = 0) =>
    job.report(node, "process.exited", { id: "rollout-0", host: "a", pid, life: 1, code: null, signal: "SIGKILL" });
  expect(left()).toEqual([first, second]);
  ends("p", first);
  ends("n0", 9);
  expect(left()).toEqual([first, second]);
  ends("n0", first);
  expect(left()).toEqual([second]);
});

/** What the alarm about missing room says, once that has lasted. */
const shortageOf = (job: Job) => {
  job.hear({ type: "controller.tick", atMs: 1 });
  const [told] = bodiesOf(job.hear({ type: "controller.tick", atMs: 30_000 }).said, "alarm.raised");
  return told?.detail;
};

describe("placing a replica of several processes", () => {
  it("puts all of them on one node where it has room for all, however full it is", () => {
    const job = jobWith().node("n0", { rollout: 3 }).node("n1", { policy: 0, rollout: 4 });
    expect(placesOf(job, "n0", "n1")).toEqual({ n0: [], n1: all });
  });

  it("tells no node of more than 1,024 processes of replicas of several, which is what one message has room for", () => {
    const many = { ...processes, rollout: 4_096 };
    const job = jobWith({ processes: many }).node("n0").node("n1").node("n2").node("n3");
    const told = ["n0", "n1", "n2", "n3"].map((node) => job.ranks(node));
    expect(told.map(({ length }) => length)).toEqual([1_024, 1_024, 1_024, 1_024]);
    const last = told.flat().find(({ rank }) => rank === 4_095);
    expect(last).toMatchObject({ size: 4_096, localRank: 4_095, localSize: 4_096 });
    const full = jobWith({ processes: { ...processes, rollout: 1_000 } }, { policy: 1, rollout: 2, checkpoint: 0 });
    expect(full.node("n0").ranks("n0")).toHaveLength(1_000);
    expect(
      full
        .node("n1")
        .ranks("n1")
        .map(({ id }) => id),
    ).toEqual(Array(1_000).fill("rollout-1"));
  });

  it("begins none while not all have room, and says what is missing", () => {
    const job = jobWith().node("n0", { rollout: 2 }, "a").node("n1", { rollout: 1 }, "b");
    expect(placesOf(job, "n0", "n1")).toEqual({ n0: [], n1: [] });
    expect(shortageOf(job)).toBe(
      "rollout: 1 waits for room for 4 processes (processes.rollout = 4; room: n0 2, n1 1); start a node with more room, scale down, or lower processes.rollout",
    );
  });

  it("says of a full node that it has no room, and where all together have enough, what their hosts lack", () => {
    const full = jobWith().node("n0", { rollout: 2 }, "a").node("n1", { rollout: 0 }, "b");
    expect(shortageOf(full)).toContain("room: n0 2, n1 0); start");
    const apart = jobWith().node("n0", { rollout: 2 }, "a").node("n1", { rollout: 2 }, "b");
    expect(shortageOf(apart)).toContain("; to be on several hosts, the job has to name their network in data.tcp_host");
  });

  it("goes only to nodes that say that they can run ranks, and says which ones cannot", () => {
    const job = jobWith();
    job.capabilities = null;
    job.node("old", {}, "a");
    expect(placesOf(job, "old")).toEqual({ old: [] });
    expect(job.ids("old"), "what one process runs goes there as ever").toEqual(["policy-0"]);
    expect(shortageOf(job)).toBe(
      "rollout: 1 waits for room for 4 processes (processes.rollout = 4; room: old cannot run ranks); start the nodes that cannot run ranks with this release of muster; start a node with more room, scale down, or lower processes.rollout",
    );
    job.capabilities = ["ranks", "what_comes_later"];
    expect(placesOf(job.node("new", {}, "b"), "old", "new")).toEqual({ old: [], new: all });
  });

  it("puts no successor of one that was given up on a node that came back without ranks", () => {
    const job = jobWith().node("n0", {}, "a").obeyRanks("n0");
    job.capabilities = null;
    job.node("n0", {}, "a").operate("replica.replace", { commandId: "c", id: "rollout-0" });
    expect(placesOf(job, "n0")).toEqual({ n0: [] });
  });

  it("puts a successor where one was given up only with devices for all of its processes", () => {
    const devices = { policy: 1, rollout: 2, checkpoint: 0 };
    const givenUp = (): Job => {
      const job = jobWith({ devices })
        .node("n0", {}, "a", ["0", "1", "2", "3", "4", "5", "6", "7", "8"])
        .obeyRanks("n0");
      return job.report("n0", "process.retired", { id: "rollout-0", life: 1, deaths: 6, reason: "so" });
    };
    const whole = givenUp().operate("replica.replace", { commandId: "c", id: "rollout-0" });
    expect(whole.ranks("n0").map(({ id, devices: own }) => `${id} ${own}`)).toEqual([
      "rollout-1 1,2",
      "rollout-1 3,4",
      "rollout-1 5,6",
      "rollout-1 7,8",
    ]);
    const short = givenUp().operate("fleet.scale", { policy: 2 });
    short.operate("replica.replace", { commandId: "c", id: "rollout-0" });
    expect(short.state.fleet.replicas["rollout-1"]?.node).toBeNull();
    expect(short.ranks("n0")).toEqual([]);
  });

  it("knows that a successor which waits for room has several processes, and places both of two at once", () => {
    const job = new Job(
      { policy: 1, rollout: 1, checkpoint: 0 },
      { processes: { policy: 1, rollout: 2, checkpoint: 0 } },
    )
      .node("n0", { rollout: 2 }, "a")
      .obeyRanks("n0")
      .operate("replica.replace", { commandId: "c", id: "rollout-0" });
    expect(job.state.fleet.replicas["rollout-1"]).toMatchObject({ node: null, group: { ranks: [], begunAtMs: null } });
    expect(placesOf(job.node("n1", { policy: 0, rollout: 2 }, "a"), "n1")).toEqual({
      n1: ["rollout-1.0", "rollout-1.1"],
    });
  });

  it("goes over the nodes of one host before it goes over hosts", () => {
    const job = several()
      .node("n0", { rollout: 3 }, "a")
      .node("n1", { rollout: 2 }, "b")
      .node("n2", { rollout: 2 }, "b");
    expect(placesOf(job, "n0")).toEqual({ n0: ["rollout-0.0", "rollout-0.1", "rollout-0.2"] });
    const later = several()
      .node("p", { rollout: 0 }, "b")
      .node("n1", { rollout: 2 }, "b")
      .node("n2", { rollout: 2, policy: 0 }, "b");
    expect(placesOf(later, "n1", "n2")).toEqual({ n1: all.slice(0, 2), n2: all.slice(2) });
  });

  it("goes over hosts only where the job names their network, and says so where it does not", () => {
    const job = jobWith().node("n0", { rollout: 2 }, "a").node("n1", { rollout: 2 }, "b");
    expect(placesOf(job, "n0", "n1")).toEqual({ n0: [], n1: [] });
    expect(shortageOf(job)).toContain("to be on several hosts, the job has to name their network in data.tcp_host");
    const reached = several()
      .node("p", { rollout: 0 }, "a")
      .node("n0", { rollout: 2 }, "a")
      .node("n1", { rollout: 2 }, "b");
    expect(placesOf(reached, "n0", "n1")).toEqual({ n0: all.slice(0, 2), n1: all.slice(2) });
  });

  it("gives each process devices of its node that nobody else has, and takes all of them or none", () => {
    const devices = { policy: 0, rollout: 2, checkpoint: 0 };
    const job = several({ devices }).node("n0", {}, "a", ["0", "1", "2", "3", "4"]);
    expect(placesOf(job, "n0")).toEqual({ n0: [] });
    job.node("n1", {}, "b", ["0", "1", "2", "3"]);
    const held = (node: string) => job.ranks(node).map((rank) => rank.devices?.join());
    expect([held("n0"), held("n1")]).toEqual([
      ["0,1", "2,3"],
      ["0,1", "2,3"],
    ]);
    job.operate("fleet.scale", { rollout: 2 }).node("n2", {}, "c", ["0", "1", "2", "3", "4", "5", "6", "7"]);
    expect(held("n2")).toEqual(["0,1", "2,3", "4,5", "6,7"]);
  });

  it("tells each rank who it is among all and on its host, and where rank 0 is met once that has begun", () => {
    const job = several()
      .node("p", { rollout: 0 }, "a")
      .node("n0", { rollout: 2 }, "a")
      .node("n1", { rollout: 2 }, "b");
    expect([...job.ranks("n0"), ...job.ranks("n1")].map(({ isDue }) => isDue)).toEqual([true, false, false, false]);
    job.obeyRanks("n0");
    const { address, port } = { address: "address-of-a", port: 29_501 };
    const common = { id: "rollout-0", role: "rollout", life: 1, size: 4, localSize: 2, isDue: true };
    expect([...job.ranks("n0"), ...job.ranks("n1")]).toEqual([
      { ...common, rank: 0, localRank: 0, nodeRank: 0, master: { address, port: 0 } },
      { ...common, rank: 1, localRank: 1, nodeRank: 0, master: { address, port } },
      { ...common, rank: 2, localRank: 0, nodeRank: 1, master: { address, port } },
      { ...common, rank: 3, localRank: 1, nodeRank: 1, master: { address, port } },
    ]);
  });
});

describe("the end of one rank", () => {
  it("is the end of the replica: its member is out at once, with who, where and why", () => {
    const job = running();
    const incarnation = job.state.members["rollout-0"]?.incarnation;
    job.exitRank("n1", "rollout-0", 3, { code: 1, words: "it broke" });
    expect(job.state.members["rollout-0"]).toBeUndefined();
    const evidence = expect.stringMatching(/^rank 3 of rollout-0 on b \(process \d+\) ended with code 1: it broke$/);
    expect(bodiesOf(job.said, "member.died")).toMatchObject([{ id: "rollout-0", incarnation, evidence, by: "exit" }]);
    expect(bodiesOf(job.said, "replica.fenced")).toHaveLength(1);
  });

  it("has all others ended at once, and the next life begins when none of them is left", () => {
    const job = running();
    job.exitRank("n1", "rollout-0", 3);
    const told = () => [...job.ranks("n0"), ...job.ranks("n1")].map(({ life, isDue }) => [life, isDue]);
    expect(told()).toEqual(Array(4).fill([2, false]));
    job.hear({ type: "controller.tick", atMs: 1_000 });
    expect(told(), "the others have not ended").toEqual(Array(4).fill([2, false]));
    for (const rank of [0, 1]) job.exitRank("n0", "rollout-0", rank);
    job.hear({ type: "controller.tick", atMs: 1_250 });
    expect(told()).toEqual(Array(4).fill([2, false]));
    job.exitRank("n1", "rollout-0", 2).hear({ type: "controller.tick", atMs: 1_500 });
    expect(told()).toEqual([
      [2, true],
      [2, false],
      [2, false],
      [2, false],
    ]);
    job.obeyRanks("n0", "n1");
    expect(told()).toEqual(Array(4).fill([2, true]));
    expect(job.ranks("n1")[0]?.master.port).toBe(29_502);
  });

  it("is counted once, however many end", () => {
    const job = running();
    job.exitRank("n1", "rollout-0", 3).exitRank("n1", "rollout-0", 2);
    for (const rank of [0, 1]) job.exitRank("n0", "rollout-0", rank);
    expect(job.state.fleet.replicas["rollout-0"]).toMatchObject({ deaths: 1, life: 2 });
    expect(job.state.fleet.replicas["rollout-0"]?.group?.losses).toHaveLength(1);
  });

  const givenUp = () => {
    const job = running();
    for (let life = 1; life <= 6; life++) {
      expect(job.health("rollout-0")).not.toBe("RETIRED");
      job.exitRank("n1", "rollout-0", 3, { code: 1 });
      endOthers(job);
      job
        .hear({ type: "controller.tick", atMs: job.state.fleet.replicas["rollout-0"]?.group?.restartAtMs ?? 0 })
        .obeyRanks("n0", "n1");
    }
    return job;
  };

  it("gives the replica up after the sixth within ten minutes, on the node where it happened", () => {
    const job = givenUp();
    expect(job.state.fleet.replicas["rollout-0"]).toMatchObject({ health: "RETIRED", node: "n1" });
    expect(placesOf(job, "n0", "n1")).toEqual({ n0: [], n1: [] });
  });

  it.each([0, 2])("is not undone by the word of the start of rank %d that comes again", (rank) => {
    const job = running();
    const { pid = 0 } = job.processOf("rollout-0", rank) ?? {};
    endOthers(job.exitRank("n1", "rollout-0", 3));
    const node = rank === 0 ? "n0" : "n1";
    job.report(node, "process.started", { id: "rollout-0", host: "b", pid, life: 1, rank });
    job.hear({ type: "controller.tick", atMs: 5_000 });
    expect(job.ranks("n0")[0]).toMatchObject({ life: 2, isDue: true });
  });

  it("is no news of a replica that is given up when its node goes later", () => {
    const job = givenUp();
    const { incarnation = "" } = job.state.members.n1 ?? {};
    job.hear({ ...{ type: "verdict.dead", id: "n1", incarnation, evidence: "silent" }, kind: "silence", silentMs: 1 });
    expect(bodiesOf(job.said, "alarm.raised")).toEqual([]);
    expect(job.state.fleet.replicas["rollout-0"]).toMatchObject({ health: "RETIRED", node: null });
  });

  it("waits longer each time before it begins again", () => {
    const job = running();
    const pauses: number[] = [];
    for (let life = 1; life <= 3; life++) {
      job.exitRank("n1", "rollout-0", 3, { code: 1 });
      endOthers(job);
      const dueAtMs = job.state.fleet.replicas["rollout-0"]?.group?.restartAtMs ?? 0;
      pauses.push(dueAtMs - job.state.nowMs);
      job.hear({ type: "controller.tick", atMs: dueAtMs }).obeyRanks("n0", "n1");
    }
    expect(pauses).toEqual([250, 1_000, 2_000]);
  });

  it("says nothing once its life is over: words of an earlier life change nothing", () => {
    const job = running();
    const { pid = 0 } = job.processOf("rollout-0", 2) ?? {};
    endOthers(job.exitRank("n1", "rollout-0", 3))
      .hear({ type: "controller.tick", atMs: 5_000 })
      .obeyRanks("n0", "n1");
    const before = job.state.members["rollout-0"];
    job.report("n1", "process.exited", {
      id: "rollout-0",
      host: "b",
      pid,
      life: 1,
      rank: 2,
      code: null,
      signal: "SIGKILL",
    });
    expect(job.state.members["rollout-0"]).toEqual(before);
    expect(job.state.fleet.replicas["rollout-0"]?.life).toBe(2);
  });
});

describe("a lost node", () => {
  const lose = (job: Job, id: string) => {
    const { incarnation = "" } = job.state.members[id] ?? {};
    return job.hear({ type: "verdict.dead", id, incarnation, evidence: "it is silent", kind: "silence", silentMs: 1 });
  };

  it("takes the whole replica with it, whose other processes are not wanted any more", () => {
    const job = lose(running(), "n1");
    expect(job.state.members["rollout-0"]).toBeUndefined();
    expect(bodiesOf(job.said, "member.died").find(({ id }) => id === "rollout-0")).toMatchObject({
      evidence: "ranks 2, 3 of rollout-0: n1, where they ran, is gone",
    });
    expect(job.ranks("n0")).toEqual([]);
    expect(job.state.fleet.replicas["rollout-0"]).toMatchObject({ node: null, group: { ranks: [] } });
  });

  it("gives all ranks a new place, as another life, which an earlier one cannot join", () => {
    const job = lose(running(), "n1").node("n2", { rollout: 2 }, "c");
    expect(placesOf(job, "n0", "n2")).toEqual({ n0: all.slice(0, 2), n2: all.slice(2) });
    expect(new Set([...job.ranks("n0"), ...job.ranks("n2")].map(({ life }) => life))).toEqual(new Set([3]));
    job.join("rollout-0", "rollout", { host: "a", life: 1, node: "n0" });
    expect(bodiesOf(job.said, "replica.refused")).toEqual([
      { reason: "this process is of life 1 of rollout-0, and its processes of life 3 take its place" },
    ]);
  });
});

describe("a node that leaves", () => {
  it("stays until the replicas of which it runs a rank have handed back their work and ended", () => {
    const job = running().report("n1", "replica.draining", {});
    expect(bodiesOf(job.said, "replica.stop")).toEqual([{ reason: "drained" }]);
    expect(job.state.members["rollout-0"]?.order?.kind).toBe("replica.stop");
    expect(job.state.members.n1?.order?.kind).not.toBe("replica.stop");
    job.report("rollout-0", "replica.left", { reason: "so" }, "rollout");
    endOthers(job);
    expect(job.state.members.n1?.order?.kind).not.toBe("replica.stop");
    job.exitRank("n1", "rollout-0", 3);
    expect(job.state.members.n1?.order?.kind).toBe("replica.stop");
  });
});

describe("a replica that leaves", () => {
  it("keeps its ranks until rank 0 has handed back its work, and is gone when all have ended", () => {
    const job = running().operate("fleet.scale", { rollout: 0 });
    expect(placesOf(job, "n0", "n1")).toEqual({ n0: all.slice(0, 2), n1: all.slice(2) });
    job.report("rollout-0", "replica.left", { reason: "so" }, "rollout");
    expect(placesOf(job, "n0", "n1")).toEqual({ n0: [], n1: [] });
    job.exitRank("n0", "rollout-0", 0, { code: 0 }).exitRank("n0", "rollout-0", 1).exitRank("n1", "rollout-0", 2);
    expect(job.state.fleet.replicas["rollout-0"]).toBeDefined();
    job.exitRank("n1", "rollout-0", 3);
    expect(job.state.fleet.replicas["rollout-0"]).toBeUndefined();
  });
});
