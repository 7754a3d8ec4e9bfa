import { expect, it } from "vitest";
import { meshTimesOf } from "../src/index.ts";

it("whoever knows more of a mesh that does not form gives up before who only knows that time is up", () => {
  for (const meshMs of [100, 1_000, 10_000, 600_000]) {
    const { formMs, answerMs, memberMs, controllerMs } = meshTimesOf(meshMs);
    const given = [formMs, answerMs, memberMs, controllerMs];
    expect(given).toEqual([...new Set(given)].sort((a, b) => a - b));
    expect(controllerMs).toBe(meshMs);
  }
});
