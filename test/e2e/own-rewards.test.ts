/** Rewards outside of the sampler: a program, also in Python, and a service judge as a module does, whoever is killed. */
import { spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { copyExample, type Example } from "./support/example-job.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let runs: Runs;
let example: Example;
let quietHash: string;
const services: Server[] = [];
beforeAll(async () => {
  runs = await openRuns();
  example = copyExample(runs, "own-prompts");
  quietHash = (await (await start("module", join(example.folder, "reward.mjs"))).ended()).weights_hash;
});
afterAll(async () => {
  for (const service of services) service.close().closeAllConnections();
  await runs.close();
});

const start = (job: string, reward: string) =>
  example.start(job, "job.steps=4", "evaluation.every_steps=2", `task.reward=${reward}`);

async function judgesAsTheModule(job: string, reward: string): Promise<void> {
  const run = await start(job, reward);
  await run.waitForEvent("step.committed");
  process.kill(run.pidOf("rollout-0"), "SIGKILL");
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary).toMatchObject({ steps: 4, ledger: { aborted: 0, quarantined: 0 } });
  expect(summary.weights_hash).toBe(quietHash);
}

test("a program judges as the module does, also when its sampler is killed", async () => {
  const path = join(example.folder, "reward.run");
  const module = JSON.stringify(pathToFileURL(join(example.folder, "reward.mjs")).href);
  writeFileSync(
    path,
    `#!${process.execPath}
import(${module}).then(({ reward }) =>
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, ...input } = JSON.parse(line);
    console.log(JSON.stringify({ id, reward: reward(input) }));
  }));
`,
  );
  chmodSync(path, 0o755);
  await judgesAsTheModule("program", path);
});

test("so does the program of the example in Python", async (context) => {
  context.skip(spawnSync("python3", ["--version"]).status !== 0, "python3 is not installed");
  await judgesAsTheModule("python", join(example.folder, "reward.py"));
});

test("so does a service", async () => {
  const { reward } = await import(pathToFileURL(join(example.folder, "reward.mjs")).href);
  const service = createServer(async (request, response) => {
    const input = JSON.parse(Buffer.concat(await request.toArray()).toString());
    response.end(JSON.stringify({ reward: reward(input) }));
  });
  services.push(service);
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  await judgesAsTheModule("service", `http://127.0.0.1:${(service.address() as AddressInfo).port}/reward`);
});
