/**
 * Replicas that an operator started by hand: nobody sees their processes end. The broker's word on ended connections, and silence, are all
 * that tells of them.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type ActorProcess,
  findNatsServer,
  type JobRun,
  makeTempDirectory,
  processesNaming,
  type TempDirectory,
  waitFor,
} from "@muster/testkit";
import { startLocalServer } from "@muster/transport";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

const deadMs = 3_000;
/** A loaded host may be late; three times the time-out, as before, would still be seen. */
const lateMs = 2_500;
const settings = [
  ...["timing.heartbeat_interval=250ms", "timing.suspect_after=500ms", `timing.dead_after=${deadMs}ms`],
  ...["health.probe_timeout=500ms", "health.readmit_after=1ms", "init_replicas.policy=1"],
].flatMap((one) => ["--set", one]);
const args = ["--steps", "400", "--policy", "1", "--rollout", "1", ...settings];

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const joined = (run: JobRun, id: string) => run.events("member.joined").filter((event) => event.id === id);
const atWork = (run: JobRun) => run.waitForEvent("step.committed", ({ members }) => members === 2, 60_000);

/** Starts a replica by hand, and waits until it is a member. */
async function guest(run: JobRun, role: "policy" | "rollout", id: string): Promise<ActorProcess> {
  const replica = await runs.muster(role, "--job", run.job, "--id", id);
  await run.waitForEvent("member.joined", (event) => event.id === id);
  return replica;
}

/** Does something to a replica. @returns How long it took to suspect it and to evict it, in the run's own time. */
async function timesOf(run: JobRun, id: string, strike: () => void) {
  const before = run.events("member.died").length;
  const startedMs = performance.now();
  strike();
  await run.waitForEvent("member.suspected", (event) => event.id === id, 30_000);
  const suspectedMs = performance.now() - startedMs;
  const died = await run.waitForEvent(
    "member.died",
    (event) => event.id === id && run.events("member.died").length > before,
    30_000,
  );
  return { suspectedMs, diedMs: performance.now() - startedMs, died };
}

/** Stops a job; what was being sampled then stays open. */
async function stop(run: JobRun): Promise<void> {
  await (await runs.muster("stop", "--job", run.job)).exited;
  const { lost, doubled, ledger } = await run.ended();
  expect({ lost, doubled, aborted: ledger.aborted }).toEqual({ lost: 0, doubled: 0, aborted: 0 });
}

describe("with the broker's word on ended connections", () => {
  let run: JobRun;
  beforeAll(async () => {
    run = await runs.start("told", ...args);
    await run.waitForEvent("step.committed");
  });

  test("a sampler that is killed is suspected at once, and evicted at its time-out", async () => {
    const sampler = await guest(run, "rollout", "hand-rollout");
    const { suspectedMs, diedMs, died } = await timesOf(run, "hand-rollout", () => sampler.signal("SIGKILL"));
    expect(suspectedMs).toBeLessThan(deadMs / 2);
    expect(diedMs).toBeLessThan(1.5 * deadMs + lateMs);
    expect(died.evidence).toContain("the broker saw its connection end");
  });

  test("a trainer that freezes is evicted at its time-out; it wakes as another life and trains again", async () => {
    const trainer = await guest(run, "policy", "hand-policy");
    await atWork(run);
    const { diedMs } = await timesOf(run, "hand-policy", () => trainer.signal("SIGSTOP"));
    expect(diedMs).toBeLessThan(deadMs + lateMs);
    await run.waitForEvent("step.committed", ({ members }) => members === 1);
    trainer.signal("SIGCONT");
    await waitFor(() => joined(run, "hand-policy").length === 2, { what: "another life", timeoutMs: 30_000 });
    const [first, second] = joined(run, "hand-policy");
    expect(second?.incarnation).not.toBe(first?.incarnation);
    await atWork(run);
  });

  test("nothing is lost or trained twice by that", async () => {
    await stop(run);
  });
});

describe("without it", () => {
  let folder: TempDirectory;
  let server: Awaited<ReturnType<typeof startLocalServer>>;
  let run: JobRun;
  beforeAll(async () => {
    folder = await makeTempDirectory();
    server = await startLocalServer({ binary: findNatsServer(), directory: join(folder.path, "nats"), job: "untold" });
    const { system: _, ...credentials } = server.credentials;
    const path = join(folder.path, "credentials.json");
    writeFileSync(path, JSON.stringify(credentials), { mode: 0o600 });
    process.env.MUSTER_NATS_URL = server.url;
    process.env.MUSTER_NATS_CREDENTIALS = path;
    run = await runs.start("untold", ...args);
    await run.waitForEvent("step.committed");
  });
  afterAll(async () => {
    delete process.env.MUSTER_NATS_URL;
    delete process.env.MUSTER_NATS_CREDENTIALS;
    await server.stop();
    await folder.remove();
  });

  test("a sampler that is killed is evicted at its time-out by silence and unanswered probes", async () => {
    const sampler = await guest(run, "rollout", "hand-rollout");
    const { diedMs, died } = await timesOf(run, "hand-rollout", () => sampler.signal("SIGKILL"));
    expect(diedMs).toBeLessThan(1.5 * deadMs + lateMs);
    expect(died.evidence).not.toContain("the broker saw its connection end");
  });

  test("a trainer that freezes is evicted at its time-out, and training goes on without it", async () => {
    const trainer = await guest(run, "policy", "hand-policy");
    await atWork(run);
    const { diedMs } = await timesOf(run, "hand-policy", () => trainer.signal("SIGSTOP"));
    expect(diedMs).toBeLessThan(deadMs + lateMs);
    await run.waitForEvent("step.committed", ({ members }) => members === 1);
    trainer.signal("SIGKILL");
    await stop(run);
  });
});

describe("everything at once", () => {
  afterEach(() => {
    for (const { pid } of processesNaming(runs.path)) process.kill(pid, "SIGKILL");
  });

  test("kill -9 of every process of a job, the broker too: the same command goes on with it, to the same weights", async () => {
    const same = ["--steps", "20", "--nodes", "2", "--policy", "2", "--rollout", "2"];
    const first = await runs.start("all", ...same);
    await first.waitForEvent("step.committed", ({ step }) => step >= 6);
    for (const { pid } of processesNaming(runs.path)) process.kill(pid, "SIGKILL");
    expect(await first.process.exited).toMatchObject({ signal: "SIGKILL" });
    const second = await runs.start("all", ...same);
    const summary = await second.ended();
    expect(summary.steps).toBe(20);
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(second));
    expectBalanced(summary);
  });
});
