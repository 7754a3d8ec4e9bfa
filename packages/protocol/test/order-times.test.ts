import { expect, it } from "vitest";
import { meshTimesOf, pullTimesOf } from "../src/index.ts";

it("whoever knows more of a mesh that does not form gives up before who only knows that time is up", () => {
  for (const meshMs of [100, 1_000, 10_000, 600_000]) {
    const { formMs, answerMs, memberMs, controllerMs } = meshTimesOf(meshMs);
    const given = [formMs, answerMs, memberMs, controllerMs];
    expect(given).toEqual([...new Set(given)].sort((a, b) => a - b));
    expect(controllerMs).toBe(meshMs);
  }
});

it("a process that can not get its part of a version says so before its rank 0 takes it for deaf, and that before the version is late", () => {
  for (const pullMs of [100, 1_000, 20_000, 600_000]) {
    const { partMs, answerMs } = pullTimesOf(pullMs);
    expect(partMs).toBeLessThan(answerMs);
    expect(answerMs).toBeLessThan(pullMs);
  }
});
