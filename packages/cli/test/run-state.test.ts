import { appendFileSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { generateKeys } from "@muster/transport/internal";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { describeRun, sayRun } from "../src/job/run-state.ts";
import { buildOnce, muster } from "./support/muster.ts";

const ended = (outcome: string): object => ({ kind: "job.ended", body: { outcome, reason: "so be it", step: 5 } });
const committed = (step: number): object => ({ kind: "step.committed", body: { step, groups: ["0.1"] } });

describe("the folder of a run", () => {
  let directory: TempDirectory;
  let run: string;

  beforeEach(async () => {
    directory = await makeTempDirectory();
    run = makeRun("one", 1_700_000_000);
  });
  afterEach(() => directory.remove());

  it("without events says nothing of its state", () => {
    expect(describeRun(run, "one")).toMatchObject({
      state: "unknown",
      step: null,
      started_at: "2023-11-14T22:13:20.000Z",
    });
  });

  it("is of an interrupted run when there is no end and no process", () => {
    addEvents(run, committed(1), committed(2));
    writeFileSync(join(run, "run.pid"), "999999999");
    const state = describeRun(run, "one");
    expect(state).toMatchObject({ state: "interrupted", step: 2 });
    expect(sayRun(state)).toMatch(/go on with: node .*muster\.mjs run --job one --runs/);
  });

  it("is of a running one while its process lives", () => {
    addEvents(run, committed(1));
    writeFileSync(join(run, "run.pid"), String(process.pid));
    expect(describeRun(run, "one")).toMatchObject({ state: "running", step: 1 });
  });

  it.each(["done", "stopped", "failed"])("says that the job is %s, with the figures of its summary", (outcome) => {
    addEvents(run, committed(5), ended(outcome));
    writeFileSync(join(run, "summary.json"), JSON.stringify({ reward_last: 0.5, eval_last: null, wall_s: 3, more: 1 }));
    expect(describeRun(run, "one")).toMatchObject({
      state: outcome,
      reason: "so be it",
      step: 5,
      reward_last: 0.5,
      wall_s: 3,
    });
  });

  it("is read from its last events, however long it is, and past a line that was cut", () => {
    addEvents(run, ...Array.from({ length: 4_000 }, (_, step) => ({ ...committed(step), pad: "x".repeat(100) })));
    appendFileSync(join(run, "events.jsonl"), '{"kind":"step.comm');
    expect(describeRun(run, "one")).toMatchObject({ state: "interrupted", step: 3_999 });
  });

  it("with a summary that is no JSON is unknown, and why", () => {
    addEvents(run, ended("done"));
    writeFileSync(join(run, "summary.json"), "{");
    expect(describeRun(run, "one")).toMatchObject({ state: "unknown", reason: expect.stringContaining("JSON") });
  });

  it("is one line of muster jobs, the newest first", { timeout: 120_000 }, () => {
    buildOnce();
    addEvents(run, committed(5), ended("done"));
    makeRun("two", 1_700_000_100);
    const listed = muster(["jobs", "--runs", directory.path]);
    expect(listed.code).toBe(0);
    expect(listed.stdout).toMatch(/^JOB .*\ntwo +unknown .*\none +done +5 /);
    const states = JSON.parse(muster(["jobs", "--json", "--runs", directory.path]).stdout) as { job: string }[];
    expect(states.map(({ job }) => job)).toEqual(["two", "one"]);
    expect(muster(["jobs", "--runs", join(directory.path, "none")]).stdout).toContain("no runs in");
  });

  it.each(["rollout", "node"])("that is over lets no %s join, and says so at once", { timeout: 120_000 }, (role) => {
    buildOnce();
    addEvents(run, committed(5), ended("done"));
    const credentials = { [role]: generateKeys().credentials.rollout };
    const text = JSON.stringify({ job: "one", url: "nats://127.0.0.1:1", credentials });
    rmSync(join(run, "connection.json"));
    writeFileSync(join(run, "connection.json"), text, { mode: 0o600 });
    const { code, stderr } = muster([role, "--job", "one", "--runs", directory.path]);
    expect(stderr).toMatch(/^muster: nobody can join: job one is over: done at step 5 \(so be it\); see .*\n$/);
    expect(code).toBe(2);
  });

  function makeRun(name: string, startedS: number): string {
    const path = join(directory.path, name);
    mkdirSync(path);
    writeFileSync(join(path, "connection.json"), "{}");
    utimesSync(join(path, "connection.json"), startedS, startedS);
    return path;
  }

  function addEvents(path: string, ...events: readonly object[]): void {
    writeFileSync(join(path, "events.jsonl"), events.map((event) => `${JSON.stringify(event)}\n`).join(""));
  }
});
