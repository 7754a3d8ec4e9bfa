/** Controllers decide a lot of which no event leaves, and die one after the other. */
import { expect, it } from "vitest";
import { canaries } from "../../src/canaries/run-canaries.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

const canary = canaries.find(({ name }) => name === "told-before-stored");

it("what they decided is told by the next one, all of it and in order", { timeout: 60_000 }, async () => {
  const drawn = drawScenario(1, "quiet");
  const shaped = canary?.shape?.(drawn) ?? drawn;
  const result = await runScenario({ ...shaped, faults: canary?.stage?.(shaped) ?? [] });
  expect(result.violations).toEqual([]);
  expect(result.end).toMatchObject({ outcome: "done" });
  expect(result.strikes).toMatchObject([{ point: "controller.before-publish.job.started" }]);
  expect(result.faults.get("kill")).toBe(2);
});
