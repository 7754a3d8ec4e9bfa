import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { digestOf } from "@muster/collectives/internal";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const echo = fileURLToPath(new URL("../../examples/echo-engine/echo.mjs", import.meta.url));
const set = (...settings: readonly string[]): string[] => settings.flatMap((setting) => ["--set", setting]);

test("engines of one's own run a whole job by configuration alone, trainers and samplers of two kinds and builds", async () => {
  const reward = join(runs.path, "longer.mjs");
  writeFileSync(reward, "export default ({ responseIds }) => responseIds.length / 16;");
  const parrot = join(runs.path, "parrot.mjs");
  writeFileSync(
    parrot,
    `import { engine as echo } from ${JSON.stringify(pathToFileURL(echo).href)};
    export const engine = (tools) => {
      const { openPolicy, ...sampler } = echo(tools);
      return { ...sampler, kind: "parrot", roles: ["rollout"], build: () => "parrot-2" };
    };`,
  );
  const own = [
    `engine.kind=${echo}`,
    `engine.rollout=${parrot}`,
    "engine.echo.eagerness=1.5",
    "weights.source=seed",
    `task.reward=${reward}`,
  ];
  const run = await runs.start("echo", ...set(...own, "evaluation.every_steps=0", "job.steps=3", "replicas.policy=2"));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 3, ledger: { trained: 3 * 16 * 8, aborted: 0, quarantined: 0 } });
  expectBalanced(summary);
  const untrained = new Float32Array(43).fill(1.5);
  expect(summary.weights_hash).toMatch(/^xxh3b:[0-9a-f]{16}$/);
  expect(summary.weights_hash).not.toBe(digestOf(new Uint8Array(untrained.buffer)));
  expect(run.events("checkpoint.kept")).not.toEqual([]);
});
