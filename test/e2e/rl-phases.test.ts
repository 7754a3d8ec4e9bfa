/**
 * A job that samples in one command and trains in another; the first is killed, and what it had sampled goes into the second as files. Four commands and
 * their processes start one after the other: ten seconds on two idle cores, a minute on busy ones.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { processesNaming, spawnMuster, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

test("groups of a rollout that was killed -9 are exported, imported and trained once; the weights are those of one process", async () => {
  const groups = 256;
  // With leases of two groups the controller must have heard of some before there are more than a few in the store.
  const settings = [`batch.groups_per_step=${groups}`, "limits.lease_groups=2", "limits.chunk_groups=1"];
  const sizes = ["--steps", "1", "--rollout-split", "train-only", ...settings.flatMap((one) => ["--set", one])];
  const rollout = await runs.start("sampled", ...sizes, "--rl-phase", "rollout");
  await rollout.waitForEvent("mesh.changed", undefined, 30_000);
  const isMidway = (): boolean => storedBytes(rollout.directory) > 60_000;
  await waitFor(isMidway, { what: "the first groups in the store", timeoutMs: 30_000 });
  for (const { pid } of processesNaming(rollout.directory)) process.kill(pid, "SIGKILL");
  rollout.process.signal("SIGKILL");
  await rollout.process.exited;

  const out = join(runs.path, "files");
  const where = ["--runs", runs.path, "--job", "sampled", "--out", out, "--json"];
  const exported = await spawnMuster(["trajectories", "export", ...where]);
  await exported.exited;
  expect(exported.lines.at(-1)).toMatch(/^\{/);
  const { groups: there, refused } = JSON.parse(exported.lines.at(-1) ?? "");
  expect(refused).toEqual([]);
  expect(there).toBeGreaterThan(8);

  const update = await runs.start("trained", ...sizes, "--rl-phase", "update", "--trajectories", out);
  await update.process.exited;
  expect(update.events("phase.ended").at(-1)?.groups ?? groups).toBe(there);

  const both = await runs.start("trained", ...sizes, "--rl-phase", "both");
  const summary = await both.ended();
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(both));
  expectBalanced(summary);
  expect(summary.ledger.trained).toBe(summary.ledger.admitted);
});

/** Bytes that the store of a run's broker has of the groups stream. */
function storedBytes(directory: string): number {
  const accounts = join(directory, "nats", "store", "jetstream");
  return readdirSync(accounts).reduce((sum, account) => {
    const messages = join(accounts, account, "streams", "muster-sampled-groups", "msgs");
    if (!existsSync(messages)) return sum;
    return readdirSync(messages).reduce((bytes, name) => bytes + statSync(join(messages, name)).size, sum);
  }, 0);
}
