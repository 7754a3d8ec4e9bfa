/**
 * A model of 200,000 tensors in a job of real processes: no message has its table, and its checkpoint has all of it, though the engine beside the
 * checkpoint actor does not know it. About 10 s.
 */
import { fileURLToPath } from "node:url";
import { loadCheckpoint } from "@muster/checkpoint";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const own = fileURLToPath(new URL("./support/many-tensors-engine.mjs", import.meta.url));
const set = (...settings: readonly string[]): string[] => settings.flatMap((setting) => ["--set", setting]);

test("two trainers, samplers and a checkpoint actor agree on 200,000 tensors", async () => {
  const settings = ["weights.source=seed", "evaluation.every_steps=0", "job.steps=3", "replicas.policy=2"];
  const run = await runs.start("many", ...set(`engine.kind=${own}`, ...settings));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 3, ledger: { trained: 3 * 16 * 8, aborted: 0, quarantined: 0 } });
  expectBalanced(summary);
  expect(run.events("message.refused")).toEqual([]);
  expect(run.events("member.died")).toEqual([]);
  const kept = run.events("checkpoint.kept").at(-1);
  const { tensors } = await loadCheckpoint(String(kept?.path));
  expect(tensors).toHaveLength(200_000);
  expect(tensors.at(-1)).toMatchObject({
    name: "model.layers.40.mlp.experts.3278.gate_proj.weight_scale",
    sizeBytes: 4,
  });
});
