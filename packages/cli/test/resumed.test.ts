/** Changes with which a run is to go on: what its folder shows to be impossible is said before anything runs. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { formatCheckpointName } from "@muster/protocol";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadJobFile } from "../src/composition/job-file.ts";
import { resumedRun } from "../src/run/resumed.ts";
import { putStoreAside } from "../src/run/run-directory.ts";

const runs = mkdtempSync(join(tmpdir(), "muster-resumed-"));
const folder = join(runs, "a");
const checkpoints = join(folder, "checkpoints");
const jobFile = fileURLToPath(new URL("../../../jobs/dates.toml", import.meta.url));

beforeAll(async () => {
  mkdirSync(checkpoints, { recursive: true });
  const flags = { "job.name": "a", "job.steps": 12, "checkpoint.directory": checkpoints };
  const { config } = await loadJobFile({ file: jobFile, set: [], flags });
  writeFileSync(join(folder, "job.json"), JSON.stringify(config));
  writeFileSync(join(folder, "config.txt"), "job.seed = 1\n");
});
afterAll(() => rmSync(runs, { recursive: true, force: true }));

function said(...events: readonly { readonly kind: string; readonly body: object }[]): void {
  const line = (event: object, seq: number) =>
    JSON.stringify({ seq, at: "2026-01-01T00:00:00Z", from: "controller", term: 1, ...event });
  writeFileSync(join(folder, "events.jsonl"), events.map((event, i) => `${line(event, i + 1)}\n`).join(""));
}

const committed = (step: number) => ({ kind: "step.committed", body: { step } });
const ended = (outcome: string) => ({ kind: "job.ended", body: { outcome, reason: "it is said here" } });
const resume = (set: readonly string[], env = {}) =>
  resumedRun("a", { runs, set, flags: {}, fromStep: undefined, env });

it("a job that was interrupted may have more steps, and no fewer than are committed", async () => {
  said(committed(5));
  expect(await resume(["job.steps=20"])).toMatchObject({ change: { settings: { steps: 20 } }, prolongedAfter: null });
  await expect(resume(["job.steps=4"])).rejects.toThrow(
    'job "a" does not change: job.steps = 4: step 5 is committed, runs or is sampled already; use 5 or more',
  );
  await expect(resume(["batch.groups_per_step=1"])).rejects.toThrow(
    "batch.minibatches = 2 with batch.groups_per_step = 1",
  );
});

it("a job that is done goes on only with more steps, from a checkpoint of its last step, on a broker of its own", async () => {
  said(committed(12), ended("done"));
  await expect(resume(["optimizer.lr=0.5"])).rejects.toThrow("name more steps, --steps 13 or more");
  await expect(resume(["job.steps=12"])).rejects.toThrow("step 12 is committed, and the job is over; use 13 or more");
  await expect(resume(["job.steps=20"])).rejects.toThrow(/there is no checkpoint of step 12 .*has none/);
  const checkpoint = (step: number) => formatCheckpointName({ step, version: step, term: 1, attempt: 1 });
  mkdirSync(join(checkpoints, checkpoint(8)));
  await expect(resume(["job.steps=20"])).rejects.toThrow(/the newest one in .* is of step 8/);
  mkdirSync(join(checkpoints, checkpoint(12)));
  expect(await resume(["job.steps=20", "batch.groups_per_step=8"])).toMatchObject({ prolongedAfter: 12 });
  await expect(resume(["job.steps=20"], { MUSTER_NATS_URL: "nats://b" })).rejects.toThrow("the broker is your own");
  said(committed(12), ended("failed"));
  await expect(resume(["job.steps=20"])).rejects.toThrow(/is over: failed .*begin a run with weights.source/);
});

it("the store of a job that was over is put aside once, and a second time nothing is lost", () => {
  mkdirSync(join(folder, "nats"));
  writeFileSync(join(folder, "nats", "journal"), "records");
  putStoreAside(folder, 12);
  putStoreAside(folder, 12);
  expect(() => rmSync(join(folder, "nats.until-step-12", "journal"))).not.toThrow();
});
