/** A trainer of as many processes as there may be. Takes longer than others: each of 4,096 processes lives through a whole job. */
import { ranksMax } from "@muster/protocol/internal";
import { expect, it } from "vitest";
import { drawScenario, withTrainersOf } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

it("a trainer of 4,096 processes trains, is sampled from and written to a checkpoint, and no message grows with them", {
  timeout: 120_000,
}, async () => {
  const scenario = drawScenario(2, "quiet");
  const { config } = scenario;
  const sizes = {
    replicas: { ...config.replicas, policy: 1, checkpoint: 1 },
    initReplicas: { ...config.initReplicas, policy: 1 },
    batch: { ...config.batch, microShards: 2 },
    checkpoint: { ...config.checkpoint, everySteps: 2 },
  };
  const job = { ...config, mode: "sync" as const, stalenessMax: 0, steps: 2, ...sizes };
  const many = { ...scenario, config: withTrainersOf(job, ranksMax), safetyMs: 0 };
  const { violations, end } = await runScenario(many);
  expect(violations).toEqual([]);
  expect(end?.outcome).toBe("done");
  expect(end?.sections.map(({ shards }) => shards?.of)).toEqual([4_096, 4_096]);
  expect(JSON.stringify(end?.sections).length).toBeLessThan(1_024);
});
