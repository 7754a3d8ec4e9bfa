import { expect, test } from "vitest";
import { DeskQueue } from "../src/nats/desk-queue.ts";

const bounds = { atOnce: 2, waitMaxMs: 50, waitingMax: 100, burst: 1_000, perSecond: 1 };
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Work that ends when it is told to. */
function slowWork(started: string[] = []) {
  const ends = new Map<string, () => void>();
  const work = (key: string) => () =>
    new Promise<string>((resolve) => {
      started.push(key);
      ends.set(key, () => resolve(`${key} done`));
    });
  const end = async (key: string) => {
    ends.get(key)?.();
    await settled();
  };
  return { work, end, started };
}

test("a few questions are worked on at a time, in the order of asking, and each is answered", async () => {
  const row = new DeskQueue<string>(bounds);
  const { work, end, started } = slowWork();
  const answers = ["a", "b", "c"].map((key) => row.ask(0, key, work(key)));
  expect(started).toEqual(["a", "b"]);
  for (const key of ["b", "a", "c"]) await end(key);
  expect(started).toEqual(["a", "b", "c"]);
  expect(await Promise.all(answers)).toEqual(["a done", "b done", "c done"]);
});

test("who would wait for too long keeps its place, and finds its answer when it asks again", async () => {
  const row = new DeskQueue<string>(bounds);
  const { work, end, started } = slowWork();
  const keys = Array.from({ length: 40 }, (_, i) => `k${i}`);
  for (const key of keys) void row.ask(0, key, work(key));
  const late = row.ask(0, "late", work("late"));
  expect(late).toMatchObject({ retryMs: expect.any(Number) });
  expect(row.ask(0, "late", work("late"))).toMatchObject({ retryMs: expect.any(Number) });
  for (const key of [...keys, "late"]) await end(key);
  expect(started.filter((key) => key === "late")).toEqual(["late"]);
  expect(await row.ask(0, "late", work("late"))).toBe("late done");
});

test("who asks again while its first question is worked on is not worked on twice", async () => {
  const row = new DeskQueue<string>(bounds);
  const { work, end, started } = slowWork();
  const first = row.ask(0, "a", work("a"));
  expect(row.ask(0, "a", work("a"))).toMatchObject({ retryMs: expect.any(Number) });
  await end("a");
  expect([await first, await row.ask(0, "a", work("a")), started]).toEqual(["a done", "a done", ["a"]]);
});

test("a row that is full, or a role that never stops asking, puts off at once", () => {
  const full = new DeskQueue<string>({ ...bounds, waitingMax: 2 });
  const greedy = new DeskQueue<string>({ ...bounds, burst: 2 });
  for (const row of [full, greedy]) {
    const { work, started } = slowWork();
    for (const key of ["a", "b", "c"]) void row.ask(0, key, work(key));
    expect(started).toEqual(["a", "b"]);
    expect(row.ask(0, "d", work("d"))).toEqual({ retryMs: 5_000 });
  }
});

test("ten thousand that come at once and poll as they are told are all answered, each once", async () => {
  const row = new DeskQueue<number>({ ...bounds, atOnce: 16, waitingMax: 16_384, burst: 12_288 });
  let worked = 0;
  const work = async () => ++worked;
  const join = async (key: string): Promise<number> => {
    for (;;) {
      const said = await row.ask(0, key, work);
      if (typeof said === "number") return said;
      expect(said.retryMs).toBeLessThanOrEqual(5_000);
      await settled();
    }
  };
  const answers = await Promise.all(Array.from({ length: 10_000 }, (_, i) => join(`r${i}`)));
  expect([new Set(answers).size, worked]).toEqual([10_000, 10_000]);
});
