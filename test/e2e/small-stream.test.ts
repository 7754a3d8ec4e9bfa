/**
 * A job whose groups stream takes the results of three steps: it fills again and again, and nobody is to blame. It takes longer than others,
 * because it waits for the word that it is over, which comes half a lease after the last result that had to wait.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type JobRun, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { digestOfLocalTraining, expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

const job = "small-stream";
const steps = 24;
/** A step of this job makes about 35 KiB. */
const groupsBytesMax = 128 * 1024;
const settings = [
  // None for its own sake.
  "checkpoint.every_steps=1000",
  ...["timing.lease=8s", "health.hung_min=5s", "health.hung_max=7s"],
  ...["timing.heartbeat_interval=400ms", "timing.suspect_after=2s", "timing.dead_after=5s"],
].flatMap((one) => ["--set", one]);

let runs: Runs;
let server: TestServer;
beforeAll(async () => {
  runs = await openRuns();
  server = await startTestServer({ job, bytesMax: { groups: groupsBytesMax } });
  const path = join(server.directory, "users.json");
  writeFileSync(path, JSON.stringify(server.server.credentials), { mode: 0o600 });
  vi.stubEnv("MUSTER_NATS_URL", server.url);
  vi.stubEnv("MUSTER_NATS_CREDENTIALS", path);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await runs.close();
  await server.close();
});

/** What the operator hears of the stream, in order. */
const said = (run: JobRun) =>
  run.events("alarm.raised").flatMap(({ alarm, detail }) => (alarm === "groups-full" ? detail : []));
const isEnd = (detail: string) => detail.startsWith("over: the groups stream takes results again");

test("a groups stream that fills again and again costs no group and nobody's name, and the weights are those of a quiet run", async () => {
  const run = await runs.start(job, "--steps", String(steps), ...settings);
  const hear = (what: string, isHeard: () => boolean) =>
    waitFor(isHeard, { what, timeoutMs: 60_000, detail: () => said(run) });
  const scale = async (policies: number) => {
    const command = await runs.muster("scale", `policy=${policies}`, "--job", job);
    expect((await command.exited).code, command.lines.join("\n")).toBe(0);
  };

  await hear("that results wait", () => said(run).length > 0);
  // Without trainers no step ends, so nothing more is sampled and nothing waits.
  await scale(0);
  await hear("that it is over", () => said(run).some(isEnd));
  await scale(1);
  const summary = await run.ended();

  const alarms = said(run);
  expect(alarms.map(isEnd).slice(0, 3)).toEqual([false, true, false]);
  for (const alarm of alarms.filter((detail) => !isEnd(detail))) expect(alarm).toContain("waits with its results");
  expect(alarms[0]).toContain("a checkpoint of step");
  const checkpoints = run.events("checkpoint.kept").filter(({ step }) => step < steps);
  expect(checkpoints.length).toBeGreaterThanOrEqual(2);
  expect(run.events("member.died")).toEqual([]);
  // Of the trainers that were sent away, an alarm of its own.
  const isMeant = (failure: string) => /^alarm.raised (groups-full|capacity):/.test(failure);
  expect(failuresOf(summary).filter((failure) => !isMeant(failure))).toEqual([]);
  expect(summary.ledger).toMatchObject({ aborted: 0, quarantined: 0 });
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
}, 150_000);
