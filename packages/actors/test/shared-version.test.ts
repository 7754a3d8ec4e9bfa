/** How long a writer of shards keeps the bytes of its version. */
import { expect, it } from "vitest";
import { SharedVersion } from "../src/checkpoint/shared-version.ts";
import type { KeptSections } from "../src/checkpoint/state-memory.ts";

const never = new AbortController().signal;

/** A clock that a test moves, and a version whose release is counted. */
function bench() {
  const timers = new Set<{ readonly atMs: number; readonly run: () => void }>();
  let nowMs = 0;
  const clock = {
    now: () => nowMs,
    after: (delayMs: number, run: () => void) => {
      const timer = { atMs: nowMs + delayMs, run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
  /** Lets time pass, and whatever is asked in it be answered. */
  const pass = async (ms: number): Promise<void> => {
    for (const endMs = nowMs + ms; nowMs < endMs; nowMs += 1_000) {
      for (const timer of [...timers].filter(({ atMs }) => atMs <= nowMs + 1_000)) {
        timers.delete(timer);
        timer.run();
      }
      await Promise.resolve().then(() => {});
    }
  };
  const released: string[] = [];
  const take = (name: string) => async (): Promise<KeptSections> => ({
    bytes: {},
    release: () => void released.push(name),
  });
  return { shared: new SharedVersion(clock), pass, released, take, timers };
}

it("lets go of the bytes soon after the set is sealed by somebody else, and not before", async () => {
  const { shared, pass, released, take, timers } = bench();
  await shared.of("a", take("a"), never);
  let isThere = true;
  shared.keepWhile(async () => isThere);
  await pass(60_000);
  expect([shared.isHeld, released]).toEqual([true, []]);
  isThere = false;
  await pass(6_000);
  expect([shared.isHeld, released, timers.size]).toEqual([false, ["a"], 0]);
});

it("keeps the bytes while more shards of the version are written, whatever the folder says meanwhile, and takes them once", async () => {
  const { shared, pass, released, take } = bench();
  const first = await shared.of("a", take("a"), never);
  shared.keepWhile(async () => false);
  expect(await shared.of("a", take("again"), never)).toBe(first);
  await pass(60_000);
  expect(released).toEqual([]);
  shared.keepWhile(async () => false);
  await pass(6_000);
  expect(released).toEqual(["a"]);
});

it("keeps the bytes when a look at the folder fails or is answered too late, and lets go of them for another version", async () => {
  const { shared, pass, released, take } = bench();
  await shared.of("a", take("a"), never);
  shared.keepWhile(() => Promise.reject(new Error("EIO")));
  await pass(20_000);
  expect(released).toEqual([]);
  let answer: (isThere: boolean) => void = () => {};
  shared.keepWhile(() => new Promise((resolve) => (answer = resolve)));
  await pass(6_000);
  await shared.of("b", take("b"), never);
  answer(false);
  await pass(6_000);
  expect([shared.isHeld, released]).toEqual([true, ["a"]]);
});

it("lets go at once of what arrives after its order was given up", async () => {
  const { shared, released, take } = bench();
  const given = AbortSignal.abort(new Error("a newer checkpoint is wanted"));
  await expect(shared.of("a", take("a"), given)).rejects.toThrow("a newer checkpoint is wanted");
  expect([shared.isHeld, released]).toEqual([false, ["a"]]);
});
