/** Groups whose bytes Gloo carries. Where Gloo was not installed when the addon was built, only what is said of that is tested. */
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type CollectiveGroup, glooCapabilities, openGroup } from "../src/index.ts";
import { buildPackage, Child } from "./support/children.ts";
import { job, key, never, openFds, socketFolder, until } from "./support/fixtures.ts";

const failure = (code: string) => expect.objectContaining({ code });
const common = { deadlineMs: 10_000, signal: never };
const count = 2 ** 20;

let folder: ReturnType<typeof socketFolder>;
const closing: (() => void)[] = [];

const placeOf = (rank: number, worldSize: number, epoch = 1) => ({
  name: "group-under-test",
  epoch,
  rank,
  members: Array.from({ length: worldSize }, (_, r) => `member-${r}`),
  socketDir: folder.path,
  capacityBytes: count * 4,
  transport: "gloo" as const,
  deadlineMs: 10_000,
});

async function opened(rank: number, worldSize: number, epoch = 1): Promise<CollectiveGroup> {
  const group = await openGroup({ ...placeOf(rank, worldSize, epoch), key, job, signal: never });
  closing.push(() => group.close());
  return group;
}

const world = (worldSize: number, epoch = 1): Promise<CollectiveGroup[]> =>
  Promise.all(Array.from({ length: worldSize }, (_, rank) => opened(rank, worldSize, epoch)));

beforeAll(buildPackage, 60_000);
beforeEach(() => {
  folder = socketFolder();
});
afterEach(() => {
  for (const close of closing.splice(0)) close();
  folder.remove();
});

it("a transport over Gloo that is not there is said to be missing, with its path", () => {
  const path = join(folder.path, "muster_gloo.so");
  const { version, reason } = glooCapabilities(path);
  expect(version).toBeUndefined();
  expect(reason).toContain(`there is no ${path}`);
});

const { reason } = glooCapabilities();

it("a group over Gloo is refused where there is none, with what to do", async (context) => {
  context.skip(reason === undefined, "Gloo is installed here");
  await expect(opened(0, 1)).rejects.toThrow("install libgloo-dev");
});

describe("a group over Gloo", () => {
  beforeEach((context) => context.skip(reason !== undefined, reason ?? ""));

  it("adds up with the same bits on all ranks, into memory of each one, and leaves the inputs as they are", async () => {
    const ranks = await world(3);
    for (const { rank, input } of ranks)
      new Float32Array(input.buffer).set(Float32Array.from({ length: 1003 }, (_, i) => i + 0.1 * rank));
    const sums = await Promise.all(ranks.map((group) => group.allReduce({ dtype: "f32", count: 1003, ...common })));
    const copies = sums.map((sum) => Buffer.from(sum));
    for (const copy of copies) expect(copy.equals(copies[0]!)).toBe(true);
    expect(copies[0]!.readFloatLE(400)).toBeCloseTo(300.3, 2);
    expect(ranks.map(({ input }) => new Float32Array(input.buffer)[7]?.toFixed(1))).toEqual(["7.0", "7.1", "7.2"]);
    const into = ranks.map(() => new Uint8Array(3 * 40));
    for (const { rank, input } of ranks) input.fill(rank + 1, 0, 40);
    await Promise.all(
      ranks.map((group, rank) => group.allGather({ dtype: "u8", count: 40, into: into[rank]!, ...common })),
    );
    for (const each of into) expect([each[0], each[40], each[119]]).toEqual([1, 2, 3]);
  });

  it("ends on a signal while it waits, and the others see that rank as lost", async () => {
    const [first, second] = await world(2);
    const abort = new AbortController();
    const aborted = first!.allReduce({ dtype: "f32", count, deadlineMs: 10_000, signal: abort.signal });
    abort.abort();
    await expect(aborted).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_ABORTED"));
    await expect(second!.barrier(common)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_PEER_LOST"));
    await expect(second!.barrier(common)).rejects.toEqual(failure("MUSTER_ERR_COLLECTIVE_SPENT"));
  });

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "ends for the survivors when a rank gets a %s in the middle",
    async (sent) => {
      const child = new Child();
      closing.push(() => child.kill());
      const [first, second] = await Promise.all([opened(0, 3), opened(1, 3), child.call("joinGroup", placeOf(2, 3))]);
      const ours = [first, second];
      for (const { input } of ours) input.fill(3);
      const ended = child.call("sums", { count }).catch(() => "gone");
      const deadlineMs = sent === "SIGKILL" ? 10_000 : 500;
      const sumUp = async (group: CollectiveGroup): Promise<never> => {
        for (let done = 0; ; done++) {
          if (done === 3 && group.rank === 0) process.kill(child.process.pid!, sent);
          await group.allReduce({ dtype: "f32", count, deadlineMs, signal: never });
        }
      };
      const results = await Promise.allSettled(ours.map(sumUp));
      const lost = failure("MUSTER_ERR_COLLECTIVE_PEER_LOST");
      for (const result of results)
        expect(result).toMatchObject({
          status: "rejected",
          reason: sent === "SIGKILL" ? lost : { code: expect.stringMatching(/COLLECTIVE_(TIMEOUT|PEER_LOST)$/) },
        });
      if (sent === "SIGKILL")
        expect(results[0]).toMatchObject({ reason: { message: expect.stringContaining("ranks [2]") } });
      for (const { input } of ours) expect(input.every((byte) => byte === 3)).toBe(true);
      child.kill();
      await ended;
    },
  );

  it("gives its connections and threads back by close, over 20 epochs", async () => {
    const round = async (epoch: number): Promise<void> => {
      for (const group of await world(2, epoch)) group.close();
    };
    await round(1);
    const before = openFds();
    for (let epoch = 2; epoch < 22; epoch++) await round(epoch);
    await until("the file descriptors of 20 epochs to go", () => openFds() <= before + 2);
  }, 30_000);
});
