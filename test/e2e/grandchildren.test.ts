/**
 * Processes that a module of the user starts in a replica, one of them in a session of its own with an empty environment: they end with it, also when the
 * node that would end them is gone.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type JobRun, processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
let run: JobRun;
beforeAll(async () => {
  runs = await openRuns();
  const path = join(runs.path, "spawns.mjs");
  writeFileSync(
    path,
    `import { spawn } from "node:child_process";
    let children;
    const own = { argv0: ${JSON.stringify(`${runs.path}/child-of-`)} + process.ppid, stdio: "ignore" };
    export default async ({ engine, prompt }) => {
      children ??= [own, { ...own, detached: true, env: {} }].map((given) => spawn("sleep", ["600"], given).unref());
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
      return { responseIds, logprobs, finish };
    };`,
  );
  const settings = [
    `rollout.generate=${path}`,
    "evaluation.prompts=0",
    "evaluation.every_steps=0",
    "init_replicas.policy=1",
  ];
  const set = settings.flatMap((setting) => ["--set", setting]);
  run = await runs.start("parents", "--steps", "100000", "--policy", "1", "--rollout", "1", ...set);
  await run.waitForEvent("step.committed");
});
afterAll(async () => {
  try {
    process.kill(-run.process.pid, "SIGINT");
    await run.process.exited;
  } finally {
    await runs.close();
  }
});

/** The replica of a living child of its module, once there is one. @returns Its process id. */
async function parent(butNot?: number): Promise<number> {
  const find = () => {
    const named = processesNaming(runs.path).map(({ args }) => /child-of-(\d+)$/.exec(args[0] ?? "")?.[1]);
    const all = named.flatMap((pid) => (pid === undefined ? [] : [Number(pid)]));
    return all.find((pid) => pid !== butNot) ?? null;
  };
  return await waitFor(find, { what: "a child of a replica", timeoutMs: 30_000 });
}

async function childGone(pid: number): Promise<void> {
  const left = () => processesNaming(`${runs.path}/child-of-${pid}`);
  await waitFor(() => left().length === 0, { what: `the end of the child of ${pid}`, timeoutMs: 20_000, detail: left });
}

test("kill -9 of a replica ends what it had started", async () => {
  const replica = await parent();
  expect(replica).toBe(run.pidOf("rollout-0"));
  process.kill(replica, "SIGKILL");
  await childGone(replica);
  expect(await parent(replica)).toBe(run.pidOf("rollout-0"));
});

test("kill -9 of a node and of its replica: the next node ends what the replica had started", async () => {
  const replica = await parent();
  process.kill(run.pidOf("node-0"), "SIGKILL");
  process.kill(replica, "SIGKILL");
  await childGone(replica);
  await parent(replica);
});
