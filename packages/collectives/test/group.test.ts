import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type CollectiveGroup, type DType, openGroup, openVersionStore } from "../src/index.ts";
import { job, key, never, openFds, socketFolder, until } from "./support/fixtures.ts";

const failure = (code: string) => expect.objectContaining({ code });
const common = { deadlineMs: 10_000, signal: never };
const capacityBytes = 2 ** 20;

let folder: ReturnType<typeof socketFolder>;
const closing: { close: () => unknown }[] = [];

const optionsOf = (rank: number, worldSize: number, epoch = 1) => ({
  key,
  job,
  name: "group-under-test",
  epoch,
  rank,
  members: Array.from({ length: worldSize }, (_, r) => `member-${r}`),
  socketDir: folder.path,
  capacityBytes,
  ...common,
});

async function onOneHost(worldSize: number, epoch = 1): Promise<CollectiveGroup[]> {
  const ranks = await Promise.all(
    Array.from({ length: worldSize }, (_, rank) => openGroup(optionsOf(rank, worldSize, epoch))),
  );
  closing.push(...ranks);
  return ranks;
}

async function onHosts(worldSize: number, epoch = 1): Promise<CollectiveGroup[]> {
  const stores = await Promise.all(
    Array.from({ length: worldSize }, (_, rank) =>
      openVersionStore({
        key,
        job,
        member: `store-${epoch}-${rank}`,
        socketDir: folder.path,
        tcpHost: "127.0.0.0/8",
        slotBytes: 64,
      }),
    ),
  );
  const places = stores.map(({ addresses }, rank) => ({ host: `host-${rank % 2}`, addresses }));
  const ranks = await Promise.all(
    stores.map((store, rank) => openGroup({ ...optionsOf(rank, worldSize, epoch), places, store })),
  );
  closing.push(...ranks, ...stores);
  return ranks;
}

/** Bits that differ by rank, NaNs with payloads, zeros of both signs and denormals among them. */
function bitsOf(rank: number, bytes: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(bytes / 4));
  for (let i = 0; i < words.length; i++) words[i] = Math.imul(i + 1, 0x9e3779b9 + rank * 2);
  words.set([0x7fc12345, 0x80000000, 0x00000001, 0xff800001].slice(0, words.length));
  return new Uint8Array(words.buffer, 0, bytes);
}

const copyOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes);

beforeEach(() => {
  folder = socketFolder();
});
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
  folder.remove();
});

for (const [backend, open] of [
  ["on one host", onOneHost],
  ["on two hosts", onHosts],
] as const) {
  describe(`a group ${backend}`, () => {
    it("refuses a sum of parts beside another one, and adds up what the first one gave", async () => {
      for (let trial = 0; trial < 5; trial++) {
        const [first, second] = await open(2, 100 + trial);
        if (!first || !second) throw new Error("two ranks were asked for");
        const count = 2 ** 17;
        const partsOf = (value: number) => {
          const from = new Uint8Array(new Float32Array(count).fill(value).buffer);
          return {
            parts: [{ from, into: new Uint8Array(count * 4), offsetBytes: 0 }],
            dtype: "f32",
            count,
            ...common,
          } as const;
        };
        const given = [partsOf(3), partsOf(50)] as const;
        const sums = given.map((options) => first.allReduceParts(options));
        // The other rank comes when one of the two is refused: before that the sum can not end.
        const outcome = Promise.allSettled(sums);
        await expect(
          Promise.any(
            sums.map((sum) =>
              sum.then(
                () => Promise.reject(new Error("summed")),
                () => "refused",
              ),
            ),
          ),
        ).resolves.toBe("refused");
        const theirs = partsOf(1);
        await second.allReduceParts(theirs);
        const settled = await outcome;
        const [winner, loser] = settled[0]?.status === "fulfilled" ? ([0, 1] as const) : ([1, 0] as const);
        expect(settled[loser]).toMatchObject({
          status: "rejected",
          reason: { code: "MUSTER_ERR_NATIVE_OPTION_REFUSED" },
        });
        const sum = (winner === 0 ? 3 : 50) + 1;
        for (const { parts } of [given[winner], theirs])
          expect(new Set(new Float32Array(parts[0].into.buffer))).toEqual(new Set([sum]));
        expect(given[loser].parts[0].into.every((byte) => byte === 0)).toBe(true);
      }
    });

    it("adds up and averages with the same bits on all ranks, and leaves the inputs as they are", async () => {
      for (const [epoch, worldSize] of [1, 2, 3].entries()) {
        const ranks = await open(worldSize, epoch);
        const count = 1003;
        for (const { rank, input } of ranks)
          new Float32Array(input.buffer, 0, count).set(Float32Array.from({ length: count }, (_, i) => i + 0.1 * rank));
        const sums = await Promise.all(ranks.map((group) => group.allReduce({ dtype: "f32", count, ...common })));
        const [first, ...others] = sums.map(copyOf);
        expect(first!.readFloatLE(4 * 100)).toBeCloseTo(100 * worldSize + (0.1 * worldSize * (worldSize - 1)) / 2, 2);
        for (const each of others) expect(each.equals(first!)).toBe(true);
        const slices = await Promise.all(
          ranks.map((group) => group.reduceScatter({ dtype: "f32", count, reduction: "mean", ...common })),
        );
        expect(slices.map(({ begin, end }) => end - begin).reduce((a, b) => a + b)).toBe(count);
        for (const { begin, end, bytes } of slices) {
          expect(bytes.byteLength).toBe((end - begin) * 4);
          if (end > begin)
            expect(copyOf(bytes).readFloatLE(0)).toBeCloseTo(first!.readFloatLE(begin * 4) / worldSize, 3);
        }
        expect(new Float32Array(ranks[0]!.input.buffer)[7]).toBe(7);
      }
    });

    it("copies every bit from the root, from all to all, and from rank to rank", async () => {
      const ranks = await open(3);
      for (const dtype of ["f32", "bf16", "u8"] satisfies DType[]) {
        const count = 1002;
        const bytes = count * { f32: 4, bf16: 2, u8: 1 }[dtype];
        for (const { rank, input } of ranks) input.set(bitsOf(rank, bytes));
        const operation = { dtype, count, ...common };
        for (const view of await Promise.all(ranks.map((group) => group.broadcast({ ...operation, root: 2 }))))
          expect(copyOf(view).equals(copyOf(bitsOf(2, bytes)))).toBe(true);
        const all = Buffer.concat([0, 1, 2].map((rank) => bitsOf(rank, bytes)));
        for (const view of await Promise.all(ranks.map((group) => group.allGather(operation))))
          expect(copyOf(view).equals(all)).toBe(true);
        const copies = ranks.map(() => new Uint8Array(3 * bytes));
        await Promise.all(ranks.map((group, rank) => group.allGather({ ...operation, into: copies[rank]! })));
        for (const copy of copies) expect(copyOf(copy).equals(all)).toBe(true);
        const into = new Uint8Array(bytes);
        await Promise.all([
          ranks[0]!.send({ ...operation, to: 1 }),
          ranks[1]!.receive({ ...operation, from: 0, into }),
        ]);
        expect(copyOf(into).equals(copyOf(bitsOf(0, bytes)))).toBe(true);
        await Promise.all(ranks.map((group) => group.barrier(common)));
      }
    });

    it("ends on a signal while it waits, and the others see that rank as lost", async () => {
      const [first, second] = await open(2);
      const abort = new AbortController();
      const aborted = first!.barrier({ deadlineMs: 10_000, signal: abort.signal });
      abort.abort();
      await expect(aborted).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_ABORTED"));
      await expect(second!.barrier(common)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_PEER_LOST"));
      await expect(second!.barrier(common)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_SPENT"));
    });

    it("refuses, on all ranks, operations that differ", async () => {
      const ranks = await open(2);
      for (const result of await Promise.allSettled(
        ranks.map((group) => group.allReduce({ dtype: "f32", count: 5 + group.rank, ...common })),
      ))
        expect(result).toMatchObject({ reason: { code: "MUSTER_ERR_COLLECTIVE_DISAGREEMENT" } });
    });
  });
}

describe("a group", () => {
  it("names the rank that does not come, and keeps the inputs for another try", async () => {
    const [first] = await onOneHost(2);
    first!.input.fill(3);
    const late = first!.allReduce({ dtype: "f32", count: 8, deadlineMs: 60, signal: never });
    await expect(late).rejects.toThrow("rank 1 did not arrive in time");
    expect(first!.input.every((byte) => byte === 3)).toBe(true);
  });

  it("refuses what this rank alone can see to be wrong, and goes on", async () => {
    const [group] = await onOneHost(1);
    const operation = { dtype: "f32", count: 1, ...common } as const;
    await expect(group!.allReduce({ ...operation, count: 2 ** 18 + 1 })).rejects.toThrow("count is 262145; give");
    await expect(group!.broadcast({ ...operation, root: 1 })).rejects.toThrow("root is 1; give a whole number");
    await expect(group!.allReduce({ ...operation, dtype: "u8" })).rejects.toThrow("bytes cannot be added up");
    const wrong = group!.receive({ ...operation, from: 0, into: new Uint8Array(4) });
    await expect(wrong).rejects.toThrow("that is this rank itself");
    const short = group!.allReduce({ ...operation, into: new Uint8Array(5) });
    await expect(short).rejects.toThrow("the target has 5 bytes");
    expect((await group!.allReduce(operation)).byteLength).toBe(4);
    await expect(openGroup({ ...optionsOf(0, 1), capacityBytes: 2 ** 40 })).rejects.toThrow("capacityBytes is");
  });

  it("gives its memory back by close, over 200 epochs, and cannot be used after it", async () => {
    const round = async (epoch: number): Promise<void> => {
      const [first, second] = await onOneHost(2, epoch);
      const { input } = first!;
      first!.close();
      first!.close();
      second!.close();
      expect(input.length).toBe(0);
      await expect(first!.barrier(common)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_SPENT"));
    };
    await round(1);
    const before = openFds();
    for (let epoch = 2; epoch < 202; epoch++) await round(epoch);
    await until("the file descriptors of 200 epochs to go", () => openFds() <= before + 2);
  }, 30_000);
});
