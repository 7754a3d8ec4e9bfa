/**
 * Agents of the examples are trained: their sessions are trajectories as all others are, whoever dies.
 *
 * The file takes about 25 s: three jobs on real processes run, and each of their episodes is a process of its own.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type JobRun, processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { copyExample, type Example } from "./support/example-job.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
// Fails when an agent has outlived its sampler, and audits both jobs.
afterAll(() => runs.close());

const small = ["job.steps=3", "batch.groups_per_step=2", "batch.group_size=4", "checkpoint.every_steps=2"];

/** Starts an example whose agents name the folder of the runs, so that they are found. */
function start(example: Example, job: string, command: string): Promise<JobRun> {
  return example.start(job, ...small, `rollout.agent.command=${command}`);
}

/** An agent that runs now. */
async function agentOf({ folder }: Example, name: string): Promise<number> {
  const file = join(folder, name);
  let pid = 0;
  const isThere = () => {
    // The run names it, too, but as a part of its command line's setting.
    pid = processesNaming(file).find(({ args }) => args.includes(file))?.pid ?? 0;
    return pid > 0;
  };
  await waitFor(isThere, { what: "an agent", timeoutMs: 20_000 });
  return pid;
}

test("a sampler that is killed in the middle of its agents' episodes costs nothing: they are played again, to the same weights", async () => {
  const example = copyExample(runs, "agent");
  const command = `python3 -I -S ${join(example.folder, "lookup.py")}`;
  const quiet = await (await start(example, "quiet", command)).ended();
  expect(quiet).toMatchObject({ steps: 3, ledger: { trained: 24, aborted: 0, quarantined: 0 } });
  const run = await start(example, "killed", command);
  await run.waitForEvent("step.committed");
  const agent = await agentOf(example, "lookup.py");
  process.kill(run.pidOf("rollout-0"), "SIGKILL");
  await waitFor(() => !existsSync(`/proc/${agent}`), { what: "the end of its agent", timeoutMs: 5_000 });
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary).toMatchObject({ ledger: quiet.ledger, weights_hash: quiet.weights_hash });
});

test("an agent that is killed costs its own trajectory, and the job trains on all others", async () => {
  const example = copyExample(runs, "agent-typescript");
  const run = await start(example, "guesses", `node ${join(example.folder, "dist/agent.mjs")}`);
  process.kill(await agentOf(example, "dist/agent.mjs"), "SIGKILL");
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary).toMatchObject({ steps: 3, ledger: { trained: 23, aborted: 1, quarantined: 0 } });
});
