/**
 * Groups whose memory is larger than a view of JavaScript may be, with views of 64 KiB instead of 4 GiB. With the real size by hand: it takes 16 GiB of
 * memory. `MUSTER_TEST_LARGE=1 npx vitest run --project unit packages/collectives/test/large-group.test.ts`
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openGroupInViews } from "../src/group.ts";
import { type CollectiveGroup, openGroup } from "../src/index.ts";
import { job, key, never, socketFolder } from "./support/fixtures.ts";

const viewBytes = 64 * 1024;
const common = { deadlineMs: 20_000, signal: never };
let folder: ReturnType<typeof socketFolder>;
let ranks: CollectiveGroup[] = [];

beforeEach(() => {
  folder = socketFolder();
});
afterEach(() => {
  for (const rank of ranks) rank.close();
  folder.remove();
});

const optionsOf = (rank: number, worldSize: number, capacityBytes: number) => ({
  ...{ key, job, name: "large", epoch: 1, rank, socketDir: folder.path, capacityBytes, ...common },
  members: Array.from({ length: worldSize }, (_, r) => `member-${r}`),
});

async function open(worldSize: number, capacityBytes: number): Promise<CollectiveGroup[]> {
  const all = Array.from({ length: worldSize }, (_, rank) => optionsOf(rank, worldSize, capacityBytes));
  ranks = await Promise.all(all.map((each) => openGroupInViews(each, viewBytes)));
  return ranks;
}

const floats = (bytes: Uint8Array) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
const windowElements = 4_096;

/** Each element of an input is its number times (rank + 1). */
function fill(rank: CollectiveGroup, elements: number): void {
  for (let from = 0; from < elements; from += windowElements) {
    const window = floats(rank.inputAt(4 * from, 4 * Math.min(windowElements, elements - from)));
    for (let i = 0; i < window.length; i++) window[i] = (from + i) * (rank.rank + 1);
  }
}

describe("a group of more bytes than one view", () => {
  const count = 100_000;

  it("adds up all of it, seen through windows of input and result", async () => {
    const world = await open(2, 4 * count);
    for (const rank of world) fill(rank, count);
    const window = { from: count - 3, elements: 3 };
    const ends = await Promise.all(world.map((rank) => rank.allReduce({ dtype: "f32", count, window, ...common })));
    for (const end of ends) expect([...floats(end)]).toEqual([3 * (count - 3), 3 * (count - 2), 3 * (count - 1)]);
    for (const rank of world)
      for (let from = 0; from < count; from += windowElements) {
        const seen = floats(rank.resultAt(4 * from, 4 * Math.min(windowElements, count - from)));
        for (let i = 0; i < seen.length; i++) if (seen[i] !== 3 * (from + i)) throw new Error(`element ${from + i}`);
      }
  });

  it("sees any window, also over the edges of what one view has", async () => {
    const [rank] = (await open(1, 4 * count)) as [CollectiveGroup];
    fill(rank, count);
    for (const from of [0, 8_191, 8_192, 16_383, 50_000, count - 8_190])
      expect(floats(rank.inputAt(4 * from, 4 * 8_190)).every((value, i) => value === from + i)).toBe(true);
  });

  it("refuses, before anything runs, a result that is not seen whole, and a window that is not there", async () => {
    const [rank] = (await open(1, 4 * count)) as [CollectiveGroup];
    const reduce = (window?: { from: number; elements: number }) =>
      rank.allReduce({ dtype: "f32", count, ...(window ? { window } : {}), ...common });
    await expect(reduce()).rejects.toThrow(/window.elements is 100000; give a window of up to \d+ elements/);
    await expect(reduce({ from: count, elements: 1 })).rejects.toThrow(/window.elements is 1/);
    await expect(reduce({ from: -1, elements: 1 })).rejects.toThrow(/window.from is -1/);
    expect(() => rank.inputAt(4 * count - 4, 8)).toThrow(/window \(bytes\) is 8/);
    expect(() => rank.inputAt(0, viewBytes)).toThrow(/window \(bytes\) is 65536/);
    await expect(reduce({ from: 0, elements: 4 })).resolves.toHaveLength(16);
    rank.close();
    expect(() => rank.resultAt(0, 4)).toThrow(/it was closed/);
  });

  it("scatters and gathers windows", async () => {
    const world = await open(2, 8 * count);
    for (const rank of world) fill(rank, count);
    const scattered = await Promise.all(
      world.map((rank) => rank.reduceScatter({ dtype: "f32", count, window: { from: 10, elements: 2 }, ...common })),
    );
    for (const { begin, end, bytes } of scattered) {
      expect(end - begin).toBe(2);
      expect([...floats(bytes)]).toEqual([3 * begin, 3 * (begin + 1)]);
    }
    const gathered = await Promise.all(
      world.map((rank) =>
        rank.allGather({ dtype: "f32", count, window: { from: 2 * count - 1, elements: 1 }, ...common }),
      ),
    );
    for (const each of gathered) expect([...floats(each)]).toEqual([2 * (count - 1)]);
  });
});

it("a group may have 1 TiB, and says what it may have", async () => {
  const asked = openGroup(optionsOf(0, 1, 2 ** 40));
  await expect(asked).rejects.toThrow(/capacityBytes is 1099511627776; give a whole number from 1 to 1099511627772/);
});

it("5 GiB are added up by two ranks, behind 2^30 elements", async (context) => {
  context.skip(process.env.MUSTER_TEST_LARGE === undefined, "takes 16 GiB of memory; by hand with MUSTER_TEST_LARGE=1");
  const count = 5 * 2 ** 28;
  const slow = { deadlineMs: 300_000, signal: never };
  ranks = await Promise.all([0, 1].map((rank) => openGroup({ ...optionsOf(rank, 2, 4 * count), ...slow })));
  const window = { from: 2 ** 30 + 5, elements: 3 };
  for (const rank of ranks) floats(rank.inputAt(4 * window.from, 12)).set([1, 2, 3]);
  const sums = await Promise.all(ranks.map((rank) => rank.allReduce({ dtype: "f32", count, window, ...slow })));
  for (const sum of sums) expect([...floats(sum)]).toEqual([2, 4, 6]);
}, 600_000);
