import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { spawnMuster } from "@muster/testkit";
import { generateKeys } from "@muster/transport/internal";
import { afterAll, beforeAll, expect, test } from "vitest";
import { jobFile, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** The command ends with code 2 and one message that contains every given part. */
async function expectRefused(args: readonly string[], ...parts: readonly string[]): Promise<void> {
  const process = await spawnMuster(args.includes("--runs") ? args : [...args, "--runs", runs.path]);
  const { code } = await process.exited;
  const said = process.lines.join("\n");
  for (const part of parts) expect(said).toContain(part);
  expect(said).not.toMatch(/\n\s+at /);
  expect(code).toBe(2);
}

test("a key that no job has is named, with the one that was meant", () =>
  expectRefused(["run", jobFile, "--set", "batch.groups_per_stp=4"], "batch.groups_per_stp", "groups_per_step"));

test("time-outs that contradict each other are named with both values", () =>
  expectRefused(
    ["run", jobFile, "--set", "timing.suspect_after=20s", "--set", "timing.dead_after=15s"],
    ...["timing.suspect_after", "20s", "timing.dead_after", "15s"],
  ));

test("a job file that is not there is named", () =>
  expectRefused(["run", join(runs.path, "missing.toml")], join(runs.path, "missing.toml")));

test("a job file that is no TOML is named with the line", async () => {
  const path = join(runs.path, "corrupt.toml");
  writeFileSync(path, '[job]\nname = "x"\nsteps = = 3\n');
  await expectRefused(["run", path], path, "3");
});

test("a folder of runs that can not be written is named", async () => {
  const path = join(runs.path, "a-file");
  writeFileSync(path, "");
  await expectRefused(["run", jobFile, "--job", "x", "--runs", path], path);
});

test("a job whose files are corrupt is not resumed", async () => {
  runs.damaged("corrupt");
  mkdirSync(join(runs.path, "corrupt"));
  writeFileSync(join(runs.path, "corrupt", "job.json"), '{"job": "corr');
  await expectRefused(["run", jobFile, "--job", "corrupt"], join(runs.path, "corrupt", "job.json"));
});

test("a port in use is named", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const connection = join(runs.path, "connection.json");
  const { rollout } = generateKeys().credentials;
  writeFileSync(connection, JSON.stringify({ job: "x", url: "nats://127.0.0.1:1", credentials: { rollout } }), {
    mode: 0o600,
  });
  try {
    const args = ["rollout", "--job", "x", "--connection", connection, "--metrics-port", String(port)];
    await expectRefused(args, `port ${port}`, "in use");
    await expectRefused(["run", jobFile, "--job", "busy-broker", "--port", String(port)], `port ${port}`, "in use");
  } finally {
    server.close();
  }
});

test("a run whose metrics port is in use ends with that reason, also when it is quiet", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  try {
    const run = await runs.muster("run", jobFile, "--job", "busy-port", "--metrics-port", String(port), "--quiet");
    const { code } = await run.exited;
    expect(run.lines.join("\n")).toMatch(
      new RegExp(`^muster: job busy-port failed: the controller ended with code 2: .*port ${port}.* in use`),
    );
    expect(run.lines).toHaveLength(1);
    expect(code).toBe(1);
  } finally {
    server.close();
  }
});

test("a module that fails in the samplers alone ends the job with its line, and not with twelve deaths", async () => {
  // As a key that only some hosts have: the check before the start finds nothing.
  const reward = join(runs.path, "reward.mjs");
  writeFileSync(
    reward,
    'if (process.argv[1].endsWith("/modules/program.js"))\n  throw new Error("no key in REWARD_KEY");\nexport default () => 0;\n',
  );
  const run = await runs.start("bad-reward", "--set", `task.reward=${reward}`, "--steps", "3");
  const { code } = await run.process.exited;
  expect(code).toBe(1);
  const [ended] = run.events("job.ended");
  expect(ended).toMatchObject({ outcome: "failed" });
  expect(ended?.reason).toBe(
    `no rollout replica ever became ready: 6 starts failed, each with: ${reward}:2 can not be loaded: no key in REWARD_KEY`,
  );
}, 60_000);

test("a job that nobody knows is named", () =>
  expectRefused(["status", "--job", "nobody"], 'no job "nobody"', runs.path));

test("an option and a command that do not exist are named", async () => {
  await expectRefused(["run", jobFile, "--stepz", "3"], "--stepz");
  await expectRefused(["strat"], "strat");
});
