import { describe, expect, test } from "vitest";
import { findNode, findPeer, globalRank, groupRanks, topologyOf } from "../src/topology/ranks.ts";
import { emptyTopology, type Outcome, rulesDefault, type Topology } from "../src/topology/state.ts";
import { type Answers, type Input, overdue, step } from "../src/topology/step.ts";

const at = (now: number) => ({ now, rules: rulesDefault });
const blank = { world_size: null, ip: null, port: null, device_id: null, metadata: {}, incarnation: null };

/** A coordinator without an edge, which refuses loudly. */
class Bench {
  state: Topology = emptyTopology;
  now = 0;

  try(input: Input): Outcome<Answers[Input["kind"]]> {
    const outcome = step(this.state, input, at(this.now));
    if ("state" in outcome) this.state = outcome.state;
    return outcome;
  }

  register(role: string, rank: number | null = null, more: object = {}): number {
    return okay(
      this.try({ kind: "register", role_name: role, rank, ...blank, ...more } as Input) as Outcome<{ rank: number }>,
    ).rank;
  }

  pass(ms: number): void {
    this.now += ms;
    const input = overdue(this.state, at(this.now));
    if (input) this.try(input);
  }

  beat(role: string, rank: number, incarnation: string | null = null) {
    return this.try({ kind: "heartbeat", role, rank, incarnation });
  }

  dies(role: string, rank: number): void {
    const others = [...this.state.roles].flatMap(([each, nodes]) => [...nodes.keys()].map((n) => [each, n] as const));
    this.now += 30_001;
    for (const [each, n] of others)
      if (each !== role || n !== rank) if (findAlive(this.state, each, n)) this.beat(each, n);
    this.pass(0);
  }
}

const findAlive = (state: Topology, role: string, rank: number) => state.roles.get(role)?.get(rank)?.isAlive;

function okay<T>(outcome: Outcome<T>): T {
  if ("refused" in outcome) throw new Error(outcome.refused.message);
  return outcome.answer;
}

const statusOf = (outcome: Outcome<unknown>) => ("refused" in outcome ? outcome.refused.status : 200);

describe("ranks", () => {
  test("an absent rank becomes the smallest free non-negative integer", () => {
    const bench = new Bench();
    bench.register("actor", 1);
    expect([bench.register("actor"), bench.register("actor"), bench.register("rollout")]).toEqual([0, 2, 0]);
    bench.try({ kind: "unregister", role: "actor", rank: 1 });
    expect(bench.register("actor")).toBe(1);
  });

  test("the rank of a dead process is free again, and its former holder is told so", () => {
    const bench = new Bench();
    bench.register("actor", null, { incarnation: "a" });
    bench.dies("actor", 0);
    expect(bench.register("actor", null, { incarnation: "b" })).toBe(0);
    expect(statusOf(bench.beat("actor", 0, "a"))).toBe(409);
    expect(statusOf(bench.beat("actor", 0, "b"))).toBe(200);
  });

  test("an explicit rank held by a live node with another address is 409", () => {
    const bench = new Bench();
    bench.register("actor", 0, { ip: "10.0.0.1", port: 1 });
    const other = { kind: "register", role_name: "actor", rank: 0, ...blank, ip: "10.0.0.2", port: 1 } as const;
    expect(statusOf(bench.try(other))).toBe(409);
    bench.dies("actor", 0);
    expect(statusOf(bench.try(other))).toBe(200);
  });

  test("registering again in the same life is idempotent", () => {
    const bench = new Bench();
    const said = { incarnation: "a", ip: "10.0.0.1", port: 1 };
    expect(bench.register("actor", null, said)).toBe(0);
    const { epoch } = bench.state;
    expect(bench.register("actor", null, said)).toBe(0);
    expect(bench.register("actor", 0, said)).toBe(0);
    expect(bench.state.epoch).toBe(epoch);
  });

  test("a new life at the same address takes the rank over, and what the former one held is free", () => {
    const bench = new Bench();
    bench.register("actor", 0, { incarnation: "a", ip: "10.0.0.1", port: 1 });
    bench.try({ kind: "lock.acquire", name: "update", owner: "actor_0", leaseMs: 60_000 });
    bench.register("actor", 0, { incarnation: "b", ip: "10.0.0.1", port: 1 });
    expect(bench.state.locks.size).toBe(0);
  });

  test("the ranks of a group are dense when those of the living are sparse", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    for (const rank of [0, 1, 2]) bench.register("actor_fwd", rank);
    for (const rank of [5, 3]) bench.register("reference", rank);
    bench.dies("actor_fwd", 1);
    const of = (role: string, rank: number, needUpdateRef = true) =>
      okay(groupRanks(bench.state, { role, rank, needUpdateRef }));
    expect(of("actor", 0)).toMatchObject({ global_rank: 0, world_size: 5, train_pp_size: 1, pp_groups: {} });
    expect([of("actor_fwd", 0), of("actor_fwd", 2)].map((each) => each.global_rank)).toEqual([1, 2]);
    expect([of("reference", 3), of("reference", 5)].map((each) => each.global_rank)).toEqual([3, 4]);
    expect(of("actor_fwd", 2, false)).toMatchObject({ global_rank: 2, world_size: 3 });
  });

  test("there is one group per pipeline stage, at the address of its source actor, IPv6 in brackets", () => {
    const bench = new Bench();
    const source = (pp_rank: number, master_address: string) => ({
      metadata: { pp_size: 2, pp_rank, is_pp_src_rank: true, master_address, master_port: 29_500 },
    });
    bench.register("actor", 0, source(0, "10.0.0.1"));
    bench.register("actor", 1, { metadata: { pp_size: 2, pp_rank: 0, is_pp_src_rank: false } });
    bench.register("actor", 2, source(1, "fd00::2"));
    expect(okay(groupRanks(bench.state, { role: "actor", rank: 2, needUpdateRef: false }))).toMatchObject({
      train_pp_size: 2,
      pp_groups: { update_actor_pp_0: "tcp://10.0.0.1:29500", update_actor_pp_1: "tcp://[fd00::2]:29500" },
    });
  });

  test("another role is 400, and a missing actor 0 is 409", () => {
    const bench = new Bench();
    bench.register("rollout", 0);
    bench.register("actor_fwd", 0);
    expect(statusOf(groupRanks(bench.state, { role: "rollout", rank: 0, needUpdateRef: false }))).toBe(400);
    expect(groupRanks(bench.state, { role: "actor_fwd", rank: 0, needUpdateRef: false })).toEqual({
      refused: { status: 409, message: "role: actor 0 is not registered", field: "role" },
    });
  });

  test("a source without an address or a port is named", () => {
    const bench = new Bench();
    bench.register("actor", 0, { metadata: { is_pp_src_rank: true, pp_rank: 0, master_address: "10.0.0.1" } });
    const outcome = groupRanks(bench.state, { role: "actor", rank: 0, needUpdateRef: false });
    expect(outcome).toMatchObject({
      refused: { status: 409, message: expect.stringContaining("metadata.master_port: actor 0") },
    });
  });
});

describe("look-ups", () => {
  test("the peer has the same rank in the role that was asked for, otherwise in the mapped one, otherwise there is none", () => {
    const bench = new Bench();
    for (const role of ["actor", "rollout", "reference"]) for (const rank of [0, 1]) bench.register(role, rank);
    const peer = (role: string, peerRole: string | null) =>
      findPeer(bench.state, { role, rank: 1, peerRole }, { actor: "rollout" });
    expect(okay(peer("actor", null))).toMatchObject({ role_name: "rollout", rank: 1 });
    expect(okay(peer("actor", "reference"))).toMatchObject({ role_name: "reference", rank: 1 });
    expect(statusOf(peer("reference", null))).toBe(404);
  });

  test("a role named like a property of every object has no peer", () => {
    expect(statusOf(findPeer(emptyTopology, { role: "constructor", rank: 0, peerRole: null }, {}))).toBe(404);
  });

  test("a dead node is found by nobody, and counts nowhere", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    bench.register("rollout", 0);
    bench.dies("rollout", 0);
    expect(statusOf(findNode(bench.state, "rollout", 0))).toBe(404);
    expect(topologyOf(bench.state, null)).toMatchObject({ world_size: 1, nodes: { actor: { 0: { rank: 0 } } } });
    expect(topologyOf(bench.state, null).nodes).not.toHaveProperty("rollout");
  });

  test("a filtered topology has the nodes of one role and the world size of all", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    bench.register("rollout", 0);
    const filtered = topologyOf(bench.state, "rollout");
    expect([Object.keys(filtered.nodes), filtered.world_size]).toEqual([["rollout"], 2]);
  });

  test("global ranks run through the roles in the order in which they appeared, over the living", () => {
    const bench = new Bench();
    bench.register("rollout", 4);
    bench.register("actor", 0);
    bench.register("rollout", 2);
    const of = (role: string, rank: number) => okay(globalRank(bench.state, role, rank)).global_rank;
    expect([of("rollout", 2), of("rollout", 4), of("actor", 0)]).toEqual([0, 1, 2]);
    bench.dies("rollout", 2);
    expect([of("rollout", 4), of("actor", 0)]).toEqual([0, 1]);
  });
});

describe("life and death", () => {
  test("death is strictly older than the time-out, and a heartbeat revives", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    bench.pass(30_000);
    expect(findAlive(bench.state, "actor", 0)).toBe(true);
    bench.pass(1);
    expect(findAlive(bench.state, "actor", 0)).toBe(false);
    const { epoch } = bench.state;
    expect(okay(bench.beat("actor", 0))).toEqual({ revived: true });
    expect(bench.state.epoch).toBe(epoch + 1);
  });

  test("a heartbeat changes no epoch, and one of nobody is 404", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    const { epoch } = bench.state;
    bench.beat("actor", 0);
    expect(bench.state.epoch).toBe(epoch);
    expect(statusOf(bench.beat("actor", 7))).toBe(404);
  });

  test("whoever dies leaves no lock, no port and no update behind", () => {
    const bench = new Bench();
    bench.register("actor_fwd", 0);
    const owner = "actor_fwd_0";
    bench.try({ kind: "lock.acquire", name: "update", owner, leaseMs: 3_600_000 });
    bench.try({ kind: "port.lease", service: "dcs", ip: "10.0.0.1", owner, not: [] });
    const entry = { names: ["a"], dtypes: ["f32"], shapes: [[1]], group_name: "g" };
    bench.try({ kind: "meta.add", updateId: "u", sender: owner, entry });
    bench.pass(30_001);
    expect(bench.state.locks.size + bench.state.ports.length).toBe(0);
    expect(bench.state.updates.get("u")?.goneBecause).toContain("gone");
  });

  test("a full table forgets the one that is dead for longest, and refuses when all live", () => {
    const bench = new Bench();
    const rules = { ...rulesDefault, nodesMax: 2 };
    const add = (rank: number) =>
      step(bench.state, { kind: "register", role_name: "actor", rank, ...blank }, { now: bench.now, rules });
    bench.register("actor", 0);
    bench.register("actor", 1);
    expect(statusOf(add(2))).toBe(507);
    bench.dies("actor", 0);
    const outcome = add(2);
    expect("state" in outcome && [...(outcome.state.roles.get("actor")?.keys() ?? [])]).toEqual([1, 2]);
  });
});

describe("locks and ports", () => {
  test("a lock has one owner until its lease is over, and each acquisition a higher token", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    bench.register("actor", 1);
    const take = (owner: string) => okay(bench.try({ kind: "lock.acquire", name: "update", owner, leaseMs: 10_000 }));
    expect(take("actor_0")).toEqual({ token: 1, owner: "actor_0" });
    expect(take("actor_1")).toEqual({ token: null, owner: "actor_0" });
    expect(take("actor_0")).toEqual({ token: 1, owner: "actor_0" });
    bench.pass(10_000);
    expect(take("actor_1")).toEqual({ token: 2, owner: "actor_1" });
    expect(statusOf(bench.try({ kind: "lock.release", name: "update", token: 1 }))).toBe(409);
    expect(statusOf(bench.try({ kind: "lock.release", name: "update", token: 2 }))).toBe(200);
  });

  test("a process whose rank another one has by now takes no lock and no port under it", () => {
    const bench = new Bench();
    const lock = (incarnation: string) =>
      bench.try({ kind: "lock.acquire", name: "update", owner: "actor_0", leaseMs: 60_000, incarnation });
    const port = (incarnation: string) =>
      bench.try({ kind: "port.lease", service: "dcs", ip: "10.0.0.1", owner: "actor_0", not: [], incarnation });
    bench.register("actor", 0, { incarnation: "frozen" });
    expect([lock("frozen"), port("frozen")].map(statusOf)).toEqual([200, 200]);
    bench.dies("actor", 0);
    bench.register("actor", null, { incarnation: "next" });
    expect([lock("next"), port("next")].map(statusOf)).toEqual([200, 200]);
    const held = bench.state;
    for (const outcome of [lock("frozen"), port("frozen")])
      expect(outcome).toMatchObject({
        refused: { status: 409, message: expect.stringContaining("actor_0 is held by another") },
      });
    expect(bench.state).toBe(held);
  });

  test("ports come from the range of their service, once per host, without those found taken", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    const lease = (service: "dcs" | "rollout" | "genrm", ip: string, not: number[] = []) =>
      okay(bench.try({ kind: "port.lease", service, ip, owner: "actor_0", not }));
    expect(
      [lease("dcs", "a"), lease("dcs", "a", [11_001]), lease("dcs", "b")].map(
        (each) => (each as { port: number }).port,
      ),
    ).toEqual([11_000, 11_002, 11_000]);
    expect([lease("rollout", "a"), lease("genrm", "a")]).toEqual([{ port: 15_000 }, { port: 16_000 }]);
    bench.try({ kind: "unregister", role: "actor", rank: 0 });
    expect(bench.state.ports).toEqual([]);
  });
});

describe("offers", () => {
  const offer = (bench: Bench, version: number, sender: string, manifest: object = { v: version }) =>
    bench.try({ kind: "offer", group: "rollout/pp_0", version, sender, manifest: { ...manifest } });

  test("versions of a group rise, and the same offer again is the same", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    expect(statusOf(offer(bench, 1, "actor_0"))).toBe(200);
    expect(statusOf(offer(bench, 1, "actor_0"))).toBe(200);
    expect(statusOf(offer(bench, 1, "actor_0", { other: true }))).toBe(409);
    expect(statusOf(offer(bench, 2, "ghost_0"))).toBe(409);
    expect(statusOf(offer(bench, 2, "actor_0"))).toBe(200);
  });

  test("a process whose rank another one has by now offers nothing under it", () => {
    const bench = new Bench();
    const offered = (version: number, incarnation: string) =>
      bench.try({ kind: "offer", group: "g", version, sender: "actor_0", manifest: {}, incarnation });
    bench.register("actor", 0, { incarnation: "frozen" });
    expect(statusOf(offered(1, "frozen"))).toBe(200);
    bench.dies("actor", 0);
    bench.register("actor", null, { incarnation: "next" });
    expect(offered(2, "frozen")).toMatchObject({
      refused: { status: 409, message: expect.stringContaining("actor_0 is held by another") },
    });
    expect(statusOf(offered(2, "next"))).toBe(200);
    expect(bench.state.offers.get("g")).toEqual({ version: 2, sender: "actor_0", manifest: {} });
  });

  test("the offer of a source that is gone is withdrawn, and the next version is still higher", () => {
    const bench = new Bench();
    bench.register("actor", 0);
    bench.register("actor", 1);
    offer(bench, 5, "actor_0");
    bench.try({ kind: "unregister", role: "actor", rank: 0 });
    expect(bench.state.offers.get("rollout/pp_0")).toEqual({ version: 5, sender: null, manifest: null });
    expect(statusOf(offer(bench, 5, "actor_1"))).toBe(409);
    expect(statusOf(offer(bench, 6, "actor_1"))).toBe(200);
  });
});

test("groups whose source is gone make room for others, so that nobody who is gone keeps others from offering", () => {
  const said = { kind: "register", role_name: "actor", ...blank } as const;
  const rules = { ...rulesDefault, offersMax: 2 };
  let state = emptyTopology;
  const enter = (input: Input): number => {
    const outcome = step(state, input, { now: 0, rules });
    if ("state" in outcome) state = outcome.state;
    return statusOf(outcome);
  };
  const offered = (group: string, rank: number) =>
    enter({ kind: "offer", group, version: 1, sender: `actor_${rank}`, manifest: {} });
  for (const rank of [0, 1]) enter({ ...said, rank });
  expect(["a", "b", "c"].map((group) => offered(group, 0))).toEqual([200, 200, 507]);
  enter({ kind: "unregister", role: "actor", rank: 0 });
  expect(["c", "d", "e"].map((group) => offered(group, 1))).toEqual([200, 200, 507]);
  expect([...state.offers.keys()]).toEqual(["c", "d"]);
});

test("metadata, manifests and ports are bounded over all processes, so that the state fits into a snapshot", () => {
  const said = { kind: "register", role_name: "actor", rank: null, ...blank } as const;
  const large = { text: "x".repeat(2_000) };
  const rules = { ...rulesDefault, metadataBytesMax: 5_000, offerBytesMax: 5_000, portsMax: 2 };
  let state = emptyTopology;
  const enter = (input: Input): number => {
    const outcome = step(state, input, { now: 0, rules });
    if ("state" in outcome) state = outcome.state;
    return statusOf(outcome);
  };
  const registered = (more: object) => enter({ ...said, ...more });
  expect([1, 2, 3].map((port) => registered({ ip: "10.0.0.1", port, metadata: { ...large } }))).toEqual([
    200, 200, 507,
  ]);
  expect(registered({ metadata: { small: true } })).toBe(200);
  // The same process again counts once.
  expect(registered({ rank: 0, ip: "10.0.0.1", port: 1, metadata: { ...large, more: 1 } })).toBe(200);
  const offered = (group: string, version: number) =>
    enter({ kind: "offer", group, version, sender: "actor_0", manifest: { ...large } });
  expect([offered("a", 1), offered("b", 1), offered("c", 1), offered("a", 2)]).toEqual([200, 200, 507, 200]);
  const leased = (ip: string) => enter({ kind: "port.lease", service: "dcs", ip, owner: "actor_0", not: [] });
  expect(["a", "b", "c"].map(leased)).toEqual([200, 200, 507]);
});
