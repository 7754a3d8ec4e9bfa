import { expect, it, vi } from "vitest";
import { runMany } from "../../src/seed/run-many.ts";
import { runSeed } from "../../src/seed/run-seed.ts";

vi.setConfig({ testTimeout: 30_000 });

it("when a runner breaks, that is the end: the others begin no other seed", async () => {
  const begun: number[] = [];
  let goOn = (): void => {};
  const slow: typeof runSeed = async (...asked) => {
    begun.push(asked[0]);
    await new Promise<void>((resolve) => {
      goOn = resolve;
    });
    return await runSeed(...asked);
  };
  const broken: typeof runSeed = () => Promise.reject(new Error("a worker is gone"));
  let onRun = (): void => {};
  const ended = new Promise<void>((resolve) => {
    onRun = resolve;
  });
  const given = { profile: "quiet", firstSeed: 1, seeds: 9, nowMs: () => 0, runners: [slow, broken], onRun } as const;
  await expect(runMany(given)).rejects.toThrow("a worker is gone");
  goOn();
  await ended;
  expect(begun).toEqual([1]);
});
