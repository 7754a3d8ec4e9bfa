import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type GradientMesh, openGradientMesh, openVersionStore } from "../src/index.ts";
import { digestOf } from "../src/internal.ts";
import { fillShards, job, key, meshOf, never, openFds, openWorld, socketFolder, until } from "./support/fixtures.ts";

const failure = (code: string) => expect.objectContaining({ code });

let folder: ReturnType<typeof socketFolder>;
const meshes: GradientMesh[] = [];

async function world(worldSize: number, epoch = 1): Promise<GradientMesh[]> {
  const opened = await openWorld(folder.path, worldSize, epoch);
  meshes.push(...opened);
  return opened;
}

const reduceOf = (mesh: GradientMesh, op: number, deadlineMs = 10_000, signal = never) =>
  mesh.reduce({ op, written: fillShards(mesh, op), deadlineMs, signal });

const bitsOf = (sum: Float32Array): string => digestOf(new Uint8Array(sum.buffer, sum.byteOffset, sum.byteLength));

beforeEach(() => {
  folder = socketFolder();
});
afterEach(() => {
  for (const mesh of meshes.splice(0)) mesh.close();
  folder.remove();
});

describe("the ordered reduction", () => {
  it("gives the same bits for one to four ranks, on every rank, op after op", async () => {
    const digests = new Set<string>();
    for (const worldSize of [1, 2, 3, 4]) {
      const ranks = await world(worldSize, worldSize);
      const perOp: string[] = [];
      for (const op of [0, 1, 2]) {
        const sums = await Promise.all(ranks.map((mesh) => reduceOf(mesh, op)));
        const distinct = new Set(sums.map(bitsOf));
        expect(distinct.size).toBe(1);
        perOp.push([...distinct].join());
      }
      digests.add(perOp.join());
    }
    expect(digests.size).toBe(1);
  });

  it("gives the same bits on ranks of several hosts as on one, and says which member no other host can reach", async () => {
    const hosts = ["a", "b", "a", "c"];
    const stores = await Promise.all(
      hosts.map((_, rank) =>
        openVersionStore({
          key,
          job,
          member: `m${rank}`,
          socketDir: folder.path,
          tcpHost: "127.0.0.0/8",
          slotBytes: 64,
        }),
      ),
    );
    const places = hosts.map((host, rank) => ({ host, addresses: stores[rank]!.addresses }));
    const optionsOf = (rank: number) => ({ ...meshOf(folder.path, rank, 4), places, store: stores[rank]! });
    const ranks = await Promise.all(hosts.map((_, rank) => openGradientMesh(optionsOf(rank))));
    meshes.push(...ranks);
    await world(1, 2);
    for (const op of [0, 1]) {
      const sums = await Promise.all(meshes.map((mesh) => reduceOf(mesh, op)));
      expect(new Set(sums.map(bitsOf)).size).toBe(1);
    }
    const unreachable = [places[0]!, { host: "b", addresses: ["unix:/x"] }, places[2]!, places[3]!];
    await expect(openGradientMesh({ ...optionsOf(0), places: unreachable })).rejects.toThrow(
      "have member-1 serve on TCP: set data.tcp_host to a network",
    );
    await Promise.all(stores.map((store) => store.close()));
  });

  it("adds along the tree of shards in float32, and leaves the shards as they are", async () => {
    const [mesh] = await world(1);
    const sum = await reduceOf(mesh!, 5);
    const [a, b, c, d, e, f, g, h] = Array.from({ length: 8 }, (_, shard) => mesh!.shard(shard));
    const plus = (left: Float32Array, right: Float32Array): Float32Array => left.map((value, i) => value + right[i]!);
    const expected = plus(plus(plus(a!, b!), plus(c!, d!)), plus(plus(e!, f!), plus(g!, h!)));
    expect(bitsOf(sum)).toBe(bitsOf(expected));
    const first = mesh!.shard(0).slice();
    fillShards(mesh!, 5);
    expect(mesh!.shard(0)).toEqual(first);
  });

  it("refuses, on all ranks, shards written twice or by nobody and ops that differ", async () => {
    const cases: { written: (rank: number) => number[]; op: (rank: number) => number; message: string }[] = [
      { written: () => [0, 1, 2, 3, 4, 5, 6, 7], op: () => 0, message: "shard 0 was written by ranks 0, 1" },
      {
        written: (rank) => (rank === 0 ? [0, 1, 2] : [4, 5, 6, 7]),
        op: () => 0,
        message: "shard 3 was written by nobody",
      },
      { written: () => [], op: (rank) => rank, message: "reduces op" },
    ];
    for (const [epoch, { written, op, message }] of cases.entries()) {
      const ranks = await world(2, 10 + epoch);
      for (const result of await Promise.allSettled(
        ranks.map((m) => m.reduce({ op: op(m.rank), written: written(m.rank), deadlineMs: 5000, signal: never })),
      )) {
        expect(result).toMatchObject({ status: "rejected", reason: { code: "MUSTER_ERR_COLLECTIVE_DISAGREEMENT" } });
        expect(String((result as PromiseRejectedResult).reason)).toContain(message);
      }
    }
  });
});

describe("waiting for the others", () => {
  it("ends at the deadline and names the ranks that did not come, at forming and at reducing", async () => {
    const forming = openGradientMesh({ ...meshOf(folder.path, 0, 3), deadlineMs: 80 });
    await expect(forming).rejects.toThrow("ranks 1, 2 did not join in time");
    const [first] = await world(2, 2);
    const reducing = reduceOf(first!, 0, 80);
    await expect(reducing).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_TIMEOUT"));
    await expect(reducing).rejects.toThrow("rank 1 did not arrive in time");
    await expect(reduceOf(first!, 0)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_SPENT"));
  });

  it("ends on a signal while it is blocked, and the others see that rank as lost", async () => {
    const [first, second, third] = await world(3);
    const abort = new AbortController();
    const aborted = reduceOf(first!, 0, 10_000, abort.signal);
    abort.abort();
    await expect(aborted).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_ABORTED"));
    const lost = reduceOf(second!, 0);
    third!.abort("cancelled by its owner");
    await expect(lost).rejects.toMatchObject({ code: "MUSTER_ERR_COLLECTIVE_PEER_LOST" });
    await expect(reduceOf(third!, 0)).rejects.toThrow("cancelled by its owner");
  });

  it("ends forming on a signal", async () => {
    const abort = new AbortController();
    const forming = openGradientMesh({ ...meshOf(folder.path, 1, 2), signal: abort.signal });
    abort.abort();
    await expect(forming).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_ABORTED"));
  });

  it("of a part of an epoch meets no other part, and is named by both in errors, with the members that it misses", async () => {
    const part = { part: 3, deadlineMs: 300 };
    const alone = [openGradientMesh({ ...meshOf(folder.path, 0, 2), ...part })];
    alone.push(openGradientMesh({ ...meshOf(folder.path, 1, 2), ...part, part: 4 }));
    const ended = await Promise.allSettled(alone);
    const [first, second] = ended.map((one) => String(one.status === "rejected" ? one.reason.message : "met"));
    expect(first).toMatch(/^mesh epoch \d+ of rank 3: .*\(1 is member-1\)/);
    expect(second).toMatch(/^mesh epoch \d+ of rank 4: .*\(0 is member-0\)/);
    const host = openGradientMesh({ ...meshOf(folder.path, 0, 2), part: 3 });
    const strange = { ...meshOf(folder.path, 1, 2), part: 3, members: ["member-0", "stranger"] };
    await expect(openGradientMesh(strange)).rejects.toMatchObject({
      code: "MUSTER_ERR_COLLECTIVE_REFUSED",
      message: expect.stringMatching(
        /^mesh epoch (\d+) of rank 3 refused this member: epoch \1 of rank 3 is known here/,
      ),
    });
    const both = await Promise.all([host, openGradientMesh({ ...meshOf(folder.path, 1, 2), part: 3 })]);
    for (const mesh of both) mesh.close();
    await expect(openGradientMesh({ ...meshOf(folder.path, 1, 2), part: 4096 })).rejects.toThrow("part is 4096");
  });

  it("refuses members with another key or another view of the epoch, and forms with the right one after them", async () => {
    const host = openGradientMesh(meshOf(folder.path, 0, 2));
    const options = meshOf(folder.path, 1, 2);
    for (const strange of [
      { members: ["member-0", "stranger"] },
      { shards: 9 },
      { key: new Uint8Array(16) },
      { job: "x" },
    ]) {
      const refused = openGradientMesh({ ...options, ...strange, deadlineMs: "job" in strange ? 100 : 5000 });
      const code = "job" in strange ? "MUSTER_ERR_COLLECTIVE_TIMEOUT" : "MUSTER_ERR_COLLECTIVE_REFUSED";
      await expect(refused).rejects.toEqual(failure(code));
    }
    const right = await openGradientMesh(options);
    meshes.push(right, await host);
    expect(right.worldSize).toBe(2);
  });

  it("keeps epochs apart: an old one does not take in a member of the next", async () => {
    const abort = new AbortController();
    const old = openGradientMesh({ ...meshOf(folder.path, 0, 2, 1), signal: abort.signal });
    const next = openGradientMesh({ ...meshOf(folder.path, 1, 2, 2), deadlineMs: 150 });
    await expect(next).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_TIMEOUT"));
    abort.abort();
    await expect(old).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_ABORTED"));
  });
});

describe("a mesh's memory", () => {
  it("is given back by close: views detach, file descriptors stay flat over 500 epochs", async () => {
    const round = async (epoch: number): Promise<void> => {
      const [first, second] = await openWorld(folder.path, 2, epoch);
      const shard = first!.shard(0);
      first!.close();
      first!.close();
      second!.close();
      expect(shard.length).toBe(0);
    };
    await round(1);
    const before = openFds();
    for (let epoch = 2; epoch < 502; epoch++) await round(epoch);
    await until("the file descriptors of 500 epochs to go", () => openFds() <= before + 2);
  }, 30_000);

  it("is refused above what can be counted, before anything is made", async () => {
    const huge = openGradientMesh({ ...meshOf(folder.path, 0, 1), shardElements: 2 ** 40 + 1 });
    await expect(huge).rejects.toThrow("shardElements is 1099511627777; give a whole number from 1 to 1099511627776");
  });

  it("is seen through windows, of shards and of the sum", async () => {
    const mesh = await openGradientMesh({ ...meshOf(folder.path, 0, 1), shards: 2, shardElements: 1000 });
    meshes.push(mesh);
    for (const index of [0, 1]) mesh.shard(index).fill(index + 1);
    mesh.shard(1, { from: 900, elements: 100 }).fill(7);
    expect(mesh.shard(1, { from: 900, elements: 100 })).toBe(mesh.shard(1, { from: 900, elements: 100 }));
    const reducing = { written: [0, 1], deadlineMs: 5000, signal: never };
    const sum = await mesh.reduce({ op: 1, ...reducing, window: { from: 890, elements: 20 } });
    expect([...sum]).toEqual([...Array(10).fill(3), ...Array(10).fill(8)]);
    for (const [from, elements, field] of [
      [-1, 1, "from"],
      [1000, 1, "from"],
      [0, 0, "elements"],
      [999, 2, "elements"],
    ] as const) {
      expect(() => mesh.shard(0, { from, elements })).toThrow(`window.${field} is`);
      await expect(mesh.reduce({ op: 2, ...reducing, window: { from, elements } })).rejects.toThrow(
        `window.${field} is`,
      );
    }
    expect((await mesh.reduce({ op: 2, ...reducing })).length).toBe(1000);
    mesh.close();
    expect(sum).toHaveLength(0);
  });

  it("cannot be reached after close", async () => {
    const [mesh] = await world(1);
    mesh!.close();
    expect(() => mesh!.shard(0)).toThrow(failure("MUSTER_ERR_COLLECTIVE_SPENT"));
    await expect(emptyReduceOf(mesh!)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_SPENT"));
  });
});

const emptyReduceOf = (mesh: GradientMesh) => mesh.reduce({ op: 0, written: [], deadlineMs: 100, signal: never });
