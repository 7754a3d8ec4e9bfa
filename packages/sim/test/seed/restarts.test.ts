/** A sampler under a supervisor of its own, which ends and starts again and again. */
import { decodeRecord } from "@muster/actors/controller";
import { type ControllerEvent, controllerLogic, planOf } from "@muster/machines/controller";
import { expect, it } from "vitest";
import type { Fault } from "../../src/faults/fault.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

it("a sampler whose ends nobody sees waits after its sixth, the operator hears why, and the job ends well", {
  timeout: 60_000,
}, async () => {
  const drawn = drawScenario(7, "quiet");
  const faults = Array.from({ length: 20 }, (_, i): Fault => {
    return { kind: "kill", node: "rollout-1", atMs: 4_000 * (i + 1), isSeen: false };
  });
  const said: string[] = [];
  let { snapshot } = controllerLogic.init(planOf(drawn.config));
  const decide = (event: ControllerEvent): void => {
    const step = controllerLogic.step(snapshot, event);
    snapshot = step.snapshot;
    for (const effect of step.effects) {
      if (effect.type !== "announce") continue;
      const { kind, body } = effect;
      if (kind === "alarm.raised" && body.alarm === "flapping") said.push(body.detail);
      if (kind === "member.died" && body.id === "rollout-1") said.push(body.evidence);
    }
  };
  const writing = (data: Uint8Array, seq: number): Uint8Array => {
    for (const event of decodeRecord(seq, data).events) decide(event);
    return data;
  };
  const result = await runScenario({ ...drawn, faults, safetyMs: drawn.limitMs / 2 }, { wire: { writing } });
  expect(result.violations).toEqual([]);
  expect(result.end).toMatchObject({ outcome: "done" });
  const first = said.findIndex((line) => line.startsWith("rollout-1 ended and started again more than 5 times"));
  expect(said.slice(0, first)).toHaveLength(6);
  const pauses = said.flatMap((line) => /is admitted in (\d+) ms/.exec(line)?.[1] ?? []).map(Number);
  expect(pauses.slice(0, 4)).toEqual([2_000, 4_000, 8_000, 16_000]);
});
