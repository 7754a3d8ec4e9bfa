import { expect, test } from "vitest";
import { noVersion, openSharedState } from "../src/heartbeat/shared-state.ts";

test("two views of one memory see the same numbers", () => {
  const writer = openSharedState();
  const reader = openSharedState(writer.memory);
  expect([reader.get("version"), reader.get("progress")]).toEqual([noVersion, 0]);
  writer.set("version", 2 ** 53 - 1);
  writer.add("progress", 5);
  writer.add("progress", 2);
  expect([reader.get("version"), reader.get("progress")]).toEqual([2 ** 53 - 1, 7]);
});

test("the loop lags by what goes beyond the time between ticks", () => {
  const state = openSharedState();
  state.tick();
  expect(state.loopLagMs(60_000)).toBe(0);
  const until = performance.now() + 5;
  while (performance.now() < until);
  const lagMs = state.loopLagMs(0);
  expect(lagMs).toBeGreaterThanOrEqual(5);
  expect(lagMs).toBeLessThan(5_000);
});
