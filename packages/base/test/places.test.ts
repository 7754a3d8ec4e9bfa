import { expect, test } from "vitest";
import { Places } from "../src/index.ts";

/** A piece of work that ends when it is told to. */
function work() {
  let end = (): void => {};
  const done = new Promise<void>((resolve) => {
    end = resolve;
  });
  const state = { isBegun: false };
  return {
    state,
    end,
    run: () => {
      state.isBegun = true;
      return done;
    },
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("as many run as there are places, others in the order of arrival, and a place that fails is given on", async () => {
  const places = new Places(2);
  const { signal } = new AbortController();
  const works = [work(), work(), work(), work()];
  const failing = work();
  const begun = () => works.map(({ state }) => state.isBegun);
  const running = works.slice(0, 2).map(({ run }) => places.use(run, signal));
  const failed = places.use(() => failing.run().then(() => Promise.reject(new Error("no"))), signal);
  running.push(...works.slice(2).map(({ run }) => places.use(run, signal)));
  await turn();
  expect([...begun(), failing.state.isBegun]).toEqual([true, true, false, false, false]);
  works[0]?.end();
  await turn();
  expect([...begun(), failing.state.isBegun]).toEqual([true, true, false, false, true]);
  failing.end();
  await expect(failed).rejects.toThrow("no");
  await turn();
  expect(begun()).toEqual([true, true, true, false]);
  for (const { end } of works) end();
  await Promise.all(running);
});

test("who is not waited for any more leaves the queue and takes no place", async () => {
  const places = new Places(1);
  const [first, second, third] = [work(), work(), work()];
  const leaving = new AbortController();
  const { signal } = new AbortController();
  const one = places.use(first.run, signal);
  const two = places.use(second.run, leaving.signal);
  const three = places.use(third.run, signal);
  leaving.abort(new Error("over"));
  await expect(two).rejects.toThrow("over");
  first.end();
  await turn();
  expect([second.state.isBegun, third.state.isBegun]).toEqual([false, true]);
  third.end();
  await Promise.all([one, three]);
});
