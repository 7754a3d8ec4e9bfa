/** Health checks of an engine: two streaks, told with every check (semantics 1). */
import { silentLogger } from "@muster/base";
import type { RolloutEngine } from "@muster/engine";
import { manualClock } from "@muster/runtime/internal";
import { describe, expect, it } from "vitest";
import { watchEngine } from "../src/rollout/engine-health.ts";

type Health = Awaited<ReturnType<RolloutEngine["health"]>>;
const timing = { firstWaitMs: 300_000, intervalMs: 10_000, timeoutMs: 5_000 };
const up: Health = { ok: true, state: "up" };
const ill: Health = { ok: false, state: "unhealthy", detail: "no token" };

/** An engine whose answers a test chooses, checked with a hand on the clock. */
function watched() {
  const clock = manualClock();
  const told: { liveness: number; generation: number }[] = [];
  const answers = { shallow: up as Health | null, deep: up as Health | null };
  const state = { isBusy: false, checks: 0 };
  const stop = watchEngine({
    engine: {
      health: ({ deep }) => {
        state.checks += 1;
        const answer = deep ? answers.deep : answers.shallow;
        return answer ? Promise.resolve(answer) : new Promise(() => {});
      },
    },
    timing,
    clock,
    logger: silentLogger,
    beats: { setEngine: (failures) => void told.push(failures) },
    isBusy: () => state.isBusy,
  });
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await settle();
  };
  return { answers, told, state, stop, pass, last: () => told.at(-1) };
}

describe("the health checks of an engine", () => {
  it("count failures in a row, of both kinds apart, and one success ends a streak", async () => {
    const { answers, pass, last } = watched();
    await pass(10_000);
    expect(last()).toEqual({ liveness: 0, generation: 0 });
    answers.deep = ill;
    await pass(10_000);
    await pass(10_000);
    expect(last()).toEqual({ liveness: 0, generation: 2 });
    answers.deep = up;
    await pass(10_000);
    expect(last()).toEqual({ liveness: 0, generation: 0 });
  });

  it("take an engine that does not answer in time for ill", async () => {
    const { answers, pass, last } = watched();
    await pass(10_000);
    answers.shallow = null;
    await pass(10_000);
    await pass(5_000);
    expect(last()).toEqual({ liveness: 1, generation: 0 });
  });

  it("count nothing before the engine was up once, until the first wait is over", async () => {
    const { answers, pass, last } = watched();
    answers.shallow = ill;
    answers.deep = ill;
    for (let round = 0; round < 29; round++) await pass(10_000);
    expect(last()).toEqual({ liveness: 0, generation: 0 });
    await pass(10_000);
    expect(last()).toEqual({ liveness: 1, generation: 1 });
  });

  it("ask nothing of an engine that waits for weights or sleeps, and generate nothing while it generates", async () => {
    const { answers, pass, told, state } = watched();
    answers.shallow = { ok: false, state: "starting" };
    answers.deep = { ok: false, state: "asleep" };
    await pass(10_000);
    expect(told).toEqual([]);
    answers.shallow = up;
    answers.deep = ill;
    state.isBusy = true;
    await pass(10_000);
    expect(told).toEqual([{ liveness: 0, generation: 0 }]);
  });

  it("end with their replica", async () => {
    const { stop, pass, state } = watched();
    stop();
    await pass(60_000);
    expect(state.checks).toBe(0);
  });
});
