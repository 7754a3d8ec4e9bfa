/** Real processes that die, freeze and leave in the middle. */
import { execFileSync } from "node:child_process";
import { createServer } from "node:net";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type GradientMesh, openGradientMesh, openVersionStore, pullVersion, type SectionInfo } from "../src/index.ts";
import { buildPackage, Child } from "./support/children.ts";
import { bytesOf, job, key, meshOf, never, pullOf, relay, socketFolder } from "./support/fixtures.ts";

const MiB = 1024 * 1024;
const id = { lineage: 1, version: 1 };

let folder: ReturnType<typeof socketFolder>;
const children: Child[] = [];
const meshes: GradientMesh[] = [];

function start(wrapper: readonly string[] = []): Child {
  const child = new Child(wrapper);
  children.push(child);
  return child;
}

type Holding = { addresses: string[]; sections: SectionInfo[] };
const hold = (child: Child, options: object = {}): Promise<Holding> =>
  child.call("hold", {
    member: "holder",
    socketDir: folder.path,
    tcpHost: "127.0.0.1",
    sizeBytes: 16 * MiB,
    seedByte: 5,
    id,
    ...options,
  });
const tcpOf = (held: Holding): string => held.addresses.find((address) => address.startsWith("tcp:"))!;

beforeAll(buildPackage, 60_000);
beforeEach(() => {
  folder = socketFolder();
});
afterEach(async () => {
  for (const mesh of meshes.splice(0)) mesh.close();
  for (const child of children) child.kill();
  await Promise.all(children.splice(0).map((child) => child.ended));
  folder.remove();
});

/** Ranks 0 and 1 here, rank 2 in a child, after one reduce that went well. */
async function threeRanks(): Promise<{ ranks: GradientMesh[]; child: Child }> {
  const child = start();
  const { key: _key, job: _job, signal: _signal, ...theirs } = meshOf(folder.path, 2, 3);
  const [first, second] = await Promise.all([
    openGradientMesh(meshOf(folder.path, 0, 3)),
    openGradientMesh(meshOf(folder.path, 1, 3)),
    child.call("join", theirs),
  ]);
  meshes.push(first, second);
  await Promise.all([
    reduceAll([first, second], 0),
    child.call("reduce", { op: 0, written: [2, 5], deadlineMs: 10_000 }),
  ]);
  return { ranks: [first, second], child };
}

const shardsOf = (rank: number): number[] => [0, 1, 2, 3, 4, 5, 6, 7].filter((shard) => shard % 3 === rank);
const reduceAll = (ranks: readonly GradientMesh[], op: number, deadlineMs = 10_000) =>
  Promise.allSettled(ranks.map((m) => m.reduce({ op, written: shardsOf(m.rank), deadlineMs, signal: never })));

describe("a rank that", () => {
  it("is killed during a reduce is named by the survivors within 200 ms", async () => {
    const { ranks, child } = await threeRanks();
    const reducing = reduceAll(ranks, 1);
    const killedAtMs = performance.now();
    child.kill("SIGKILL");
    const results = await reducing;
    const noticedMs = performance.now() - killedAtMs;
    for (const result of results) {
      expect(result).toMatchObject({ reason: { code: "MUSTER_ERR_COLLECTIVE_PEER_LOST", params: { ranks: "2" } } });
    }
    expect(noticedMs).toBeLessThan(200);
  });

  it("is frozen during a reduce is named by the survivors at their deadline", async () => {
    const { ranks, child } = await threeRanks();
    child.kill("SIGSTOP");
    for (const result of await reduceAll(ranks, 1, 300)) {
      expect(result).toMatchObject({ reason: { code: "MUSTER_ERR_COLLECTIVE_TIMEOUT", params: { ranks: "2" } } });
    }
  });

  it("is killed leaves the survivors able to form the next epoch at once", async () => {
    const { ranks, child } = await threeRanks();
    child.kill("SIGKILL");
    await reduceAll(ranks, 1);
    const startedAtMs = performance.now();
    const next = await Promise.all([0, 1].map((rank) => openGradientMesh(meshOf(folder.path, rank, 2, 2))));
    meshes.push(...next);
    expect(performance.now() - startedAtMs).toBeLessThan(500);
    expect(next.map((mesh) => mesh.worldSize)).toEqual([2, 2]);
  });
});

describe("a holder that", () => {
  it("is killed in the middle of a stream is replaced by the next one", async () => {
    const [victim, other] = [start(), start()];
    const [first, second] = await Promise.all([hold(victim), hold(other, { member: "other" })]);
    const doomed = await relay(tcpOf(first), 6 * MiB, () => victim.kill("SIGKILL"));
    const options = pullOf(id, first.sections, [doomed.address, tcpOf(second)]);
    expect((await pullVersion(options)).from).toBe(tcpOf(second)); // where it stood: native/test/chain_test.cc
    expect(options.into.weights!.every((byte) => byte === 5)).toBe(true);
    doomed.close();
  });

  it("was killed leaves a socket behind that readers pass over", async () => {
    const [victim, other] = [start(), start()];
    const [first, second] = await Promise.all([hold(victim), hold(other, { member: "other" })]);
    victim.kill("SIGKILL");
    await victim.ended;
    const pulled = await pullVersion(pullOf(id, first.sections, [...first.addresses, second.addresses[0]!]));
    expect(pulled).toMatchObject({ via: "memory", from: second.addresses[0] });
  });

  it("is frozen is passed over after half a second of silence", async () => {
    const [frozen, other] = [start(), start()];
    const [first, second] = await Promise.all([hold(frozen), hold(other, { member: "other" })]);
    frozen.kill("SIGSTOP");
    const pulled = await pullVersion(pullOf(id, first.sections, [first.addresses[0]!, second.addresses[0]!]));
    expect(pulled.from).toBe(second.addresses[0]);
    expect(pulled.durationMs).toBeLessThan(2_000);
  });
});

describe("readers", () => {
  it("in three processes, one of them late, get whole versions or none while 200 are published", async () => {
    const sizeBytes = 2 * MiB;
    const store = await openVersionStore({
      key,
      job,
      member: "h",
      socketDir: folder.path,
      tcpHost: "127.0.0.1",
      slotBytes: sizeBytes,
    });
    const readers = [start(), start(), start()];
    const [unix, tcp] = store.addresses as [string, string];
    const counting: Promise<{ whole: number; torn: number; gone: number; other: string[] }>[] = [];
    const read = (reader: Child, holders: string[]): void => {
      counting.push(reader.call("read", { holders }));
    };
    read(readers[0]!, [unix]);
    read(readers[1]!, [tcp, unix]);
    for (let version = 1; version <= 200; version++) {
      if (version === 100) read(readers[2]!, [unix, tcp]);
      const sections = await store.publish({ lineage: 1, version }, { weights: bytesOf(sizeBytes, version) });
      for (const reader of readers) reader.tell("newest", { id: { lineage: 1, version }, sections });
    }
    for (const reader of readers) reader.tell("stop");
    for (const counts of await Promise.all(counting)) {
      expect(counts).toMatchObject({ torn: 0, other: [] });
      expect(counts.whole).toBeGreaterThan(0);
    }
    await store.close();
  }, 60_000);
});

describe("a process that is busy with everything", () => {
  it.each(["exitBusy", "terminateBusyWorker"])("ends cleanly (%s)", async (call) => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const bound = silent.address();
    const silentAddress = `tcp:127.0.0.1:${typeof bound === "object" ? bound?.port : 0}`;
    const child = start();
    await child.call(call, { socketDir: folder.path, silentAddress });
    if (call === "terminateBusyWorker") child.process.disconnect();
    expect(await child.ended).toEqual({ code: 0, signal: null });
    silent.close();
  });
});

type Namespace = { name: string; device: string; wrapper: string[]; host: string; close: () => void };

/** A network namespace with an address of its own, or null where that is not allowed. */
function openNamespace(): Namespace | null {
  const name = `muster-${process.pid}`;
  const [ours, theirs] = [`mu${process.pid}a`.slice(-15), `mu${process.pid}b`.slice(-15)];
  // A network of four addresses for each process: what another one left behind must not be the way to ours.
  const [third, fourth] = [(process.pid >> 6) & 255, (process.pid & 63) * 4];
  const [near, host] = [`10.213.${third}.${fourth + 1}`, `10.213.${third}.${fourth + 2}`];
  const ip = (...args: string[]): void => {
    execFileSync("ip", args, { stdio: "pipe" });
  };
  try {
    ip("netns", "add", name);
  } catch {
    return null; // not root, or no ip: the test says so loudly
  }
  ip("link", "add", ours, "type", "veth", "peer", "name", theirs);
  ip("link", "set", theirs, "netns", name);
  ip("addr", "add", `${near}/30`, "dev", ours);
  ip("link", "set", ours, "up");
  ip("-n", name, "addr", "add", `${host}/30`, "dev", theirs);
  ip("-n", name, "link", "set", theirs, "up");
  const wrapper = ["ip", "netns", "exec", name];
  return { name, device: theirs, wrapper, host, close: () => ip("netns", "del", name) };
}

describe("between hosts", () => {
  it("a version crosses a real network interface, and over a link that went down nothing is waited for", async (context) => {
    const namespace = openNamespace();
    if (namespace === null) {
      return context.skip("network namespaces need root and iproute2; TCP was tested on loopback only");
    }
    try {
      const child = start(namespace.wrapper);
      const held = await hold(child, { tcpHost: namespace.host });
      const pulled = await pullVersion(pullOf(id, held.sections, [tcpOf(held)]));
      expect(pulled).toMatchObject({ via: "tcp", bytes: 16 * MiB });
      expect(tcpOf(held)).toContain(`tcp:${namespace.host}:`);
      execFileSync("ip", ["-n", namespace.name, "link", "set", namespace.device, "down"]);
      const cut = pullVersion(pullOf(id, held.sections, [tcpOf(held)]));
      await expect(cut).rejects.toMatchObject({ code: "MUSTER_ERR_PULL_UNREACHABLE" });
    } finally {
      namespace.close();
    }
  }, 20_000);
});
