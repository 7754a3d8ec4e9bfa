/** Jobs over two hosts, between which nothing but TCP leads. It takes longer than 20 seconds: whole jobs, whose hosts fall silent, die and come back. */
import { waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { type FarHost, openFarHost } from "./support/far-host.ts";
import { ranksJob } from "./support/ranks-job.ts";
import { digestOfLocalTraining, expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
let far: ReturnType<typeof openFarHost>;
beforeAll(async () => {
  runs = await openRuns();
  far = openFarHost();
});
afterAll(async () => {
  try {
    await runs.close();
  } finally {
    if (!("missing" in far)) far.close();
  }
});

/** The second host; without one the test is skipped. */
function hostOf(context: TestContext): FarHost {
  return "missing" in far ? skipped(context, far.missing) : far;
}

/** The second host, where firewall rules can silence it; otherwise the test is skipped. */
function silenceableOf(context: TestContext): FarHost {
  const host = hostOf(context);
  return host.unsilenceable === null ? host : skipped(context, host.unsilenceable);
}

function skipped(context: TestContext, why: string): never {
  return context.skip(why);
}

describe("replicas on another host", () => {
  test("train and sample with the others: the final weights are those of training in one process", async (context) => {
    const host = hostOf(context);
    const init = ["--set", "init_replicas.policy=1", "--set", "init_replicas.rollout=1", ...host.settings];
    const run = await runs.start("hosts", "--steps", "96", "--policy", "1", "--rollout", "1", ...init);
    await run.waitForEvent("job.started");
    const start = await host.open(run);
    const replicas = await Promise.all([
      start("policy", "--id", "far-policy"),
      start("rollout", "--id", "far-0"),
      start("rollout", "--id", "far-1"),
    ]);
    await run.waitForEvent("step.committed", ({ members }) => members === 2, 60_000);
    const summary = await run.ended();
    expect(run.events("step.committed").at(-1)).toMatchObject({ members: 2 });
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expect(failuresOf(summary)).toEqual([]);
    expectBalanced(summary);
    expect((await Promise.all(replicas.map(({ exited }) => exited))).map(({ code }) => code)).toEqual([0, 0, 0]);
  });
});

describe("a trainer on another host, in the middle of saying its gradients,", () => {
  /** Bytes of a step's gradients after which it falls silent: fewer than it has to say. */
  const midway = 50_000;
  const settings = [
    ...["init_replicas.policy=2", "timing.heartbeat_interval=400ms", "timing.suspect_after=1s", "timing.dead_after=4s"],
    // It is to come back while the job still trains.
    "health.readmit_after=1ms",
  ].flatMap((one) => ["--set", one]);

  /** A job whose three trainers are in one gradient exchange that the far one does not finish. */
  async function stuck(context: TestContext, job: string, steps: number) {
    const host = silenceableOf(context);
    const run = await runs.start(
      job,
      "--steps",
      String(steps),
      "--policy",
      "2",
      "--rollout",
      "1",
      ...settings,
      ...host.settings,
    );
    await run.waitForEvent("job.started");
    const trainer = await (await host.open(run))("policy", "--id", "far-policy");
    const { step } = await run.waitForEvent("step.committed", ({ members }) => members === 3, 60_000);
    host.silenceAfter(midway);
    await waitFor(() => host.isSilent(), { what: "the far trainer in the middle of its gradients", timeoutMs: 30_000 });
    const at = Math.max(step, run.events("step.committed").at(-1)?.step ?? 0) + 1;
    return { host, run, trainer, at };
  }

  test("dies: the others train the same batch again, and their weights are those of training in one process", async (context) => {
    const { host, run, trainer, at } = await stuck(context, "far-dies", 40);
    trainer.signal("SIGKILL");
    host.hearAgain();
    await run.waitForEvent("member.died", ({ id }) => id === "far-policy");
    const again = await run.waitForEvent("step.committed", ({ step }) => step === at, 60_000);
    expect(again).toMatchObject({ members: 2 });
    const summary = await run.ended();
    expect(run.events("step.retried").map(({ step }) => step)).toContain(at);
    expect(run.events("step.committed").map(({ step }) => step)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expectBalanced(summary);
  });

  test("freezes: it is evicted, the others train the same batch again, and it comes back as a new one", async (context) => {
    const { host, run, trainer, at } = await stuck(context, "far-freezes", 120);
    trainer.signal("SIGSTOP");
    host.hearAgain();
    const { incarnation } = await run.waitForEvent("member.died", ({ id }) => id === "far-policy", 60_000);
    trainer.signal("SIGCONT");
    await run.waitForEvent(
      "member.joined",
      (event) => event.id === "far-policy" && event.incarnation !== incarnation,
      60_000,
    );
    const summary = await run.ended();
    expect(run.events("step.retried").map(({ step }) => step)).toContain(at);
    expect(run.events("step.committed").map(({ step }) => step)).toEqual(Array.from({ length: 120 }, (_, i) => i + 1));
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expectBalanced(summary);
    expect((await trainer.exited).code).toBe(0);
  });
});

describe("a trainer of two processes, one on each host,", () => {
  /** Bytes after which the far host falls silent: fewer than one process tells the other for a step. */
  const midway = 5_000;
  /** So that the other trainer takes longer for all steps than the far one needs to come back. */
  const groups = "batch.groups_per_step=48";
  const args = (trainers: number): readonly string[] => [
    ...["--steps", "80", "--policy", `${trainers}`, "--rollout", "1"],
    ...ranksJob(runs.path, ...["job.seed=7", "checkpoint.memory_every=0", "init_replicas.policy=1", groups]),
    ...["--set", "processes.policy=2"],
  ];
  const settings = [
    ...["devices.policy=1", "timing.heartbeat_interval=400ms", "timing.suspect_after=1s", "timing.dead_after=4s"],
    "health.readmit_after=1ms",
  ].flatMap((one) => ["--set", one]);

  test("is lost with a host that is cut off in the middle of a step, and with one that dies: the others train the same batch again, it begins anew, and the weights are those of one host", async (context) => {
    const host = silenceableOf(context);
    const quiet = runs.start("ranks-quiet", ...args(1)).then((one) => one.ended());
    const run = await runs.start("ranks-hosts", ...args(2), "--devices", "0,1,2", ...settings, ...host.settings);
    await run.waitForEvent("job.started");
    const start = await host.open(run);
    await start("node", "--id", "far", "--capacity", "policy=1,rollout=0,checkpoint=0", "--devices", "3");
    const isOut = ({ id }: { readonly id: string }) => id === "policy-1";
    const { step } = await run.waitForEvent("step.committed", ({ members }) => members === 2, 60_000);
    host.silenceAfter(midway);
    await waitFor(() => host.isSilent(), { what: "the far process in the middle of a step", timeoutMs: 30_000 });
    host.cutOff();
    const at = Math.max(step, run.events("step.committed").at(-1)?.step ?? 0) + 1;
    const cut = await run.waitForEvent("member.died", isOut, 20_000);
    const again = await run.waitForEvent("step.committed", (one) => one.step === at, 30_000);
    expect(again).toMatchObject({ members: 1 });
    host.hearAgain();
    await run.waitForEvent("step.committed", (one) => one.step > at && one.members === 2, 60_000);
    host.die();
    const dead = await run.waitForEvent("member.died", (one) => isOut(one) && one.at_ms > cut.at_ms, 20_000);
    expect(dead.evidence).toMatch(/^ranks? [01]+ of policy-1\b.* is gone$/);
    const summary = await run.ended();
    expect(run.events("step.retried").map((one) => one.step)).toContain(at);
    const { weights_hash } = await quiet;
    expect(summary).toMatchObject({ lost: 0, doubled: 0, weights_hash });
    expectBalanced(summary);
  }, 120_000);
});

describe("weights of which each step changes few bits", () => {
  test("cross to another host as deltas of a fiftieth at most, every 25th as a whole, and are the same", async (context) => {
    const host = hostOf(context);
    const settings = [
      "init_replicas.policy=1",
      "init_replicas.rollout=1",
      "data.delta=always",
      "optimizer.lr=1e-10",
      ...host.settings.slice(1),
    ];
    const run = await runs.start(
      "deltas",
      ...["--steps", "60", "--policy", "1", "--rollout", "1"],
      ...settings.flatMap((one) => ["--set", one]),
    );
    await run.waitForEvent("job.started");
    const sampler = await (await host.open(run))("rollout", "--id", "far-0");
    const summary = await run.ended();
    const arrivals = arrivalsIn(sampler.lines);
    const deltas = arrivals.filter(({ way }) => way === "delta");
    expect(deltas.length).toBeGreaterThan(5); // it joins when the job is under way
    for (const { bytes, wireBytes } of deltas) expect(wireBytes).toBeLessThan(bytes / 50);
    expect(arrivals.find(({ version }) => version === 50)).toMatchObject({ way: "whole" });
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expect((await sampler.exited).code).toBe(0);
  });
});

describe("replicas of two ranks on another host", () => {
  test("share what crosses: one takes a version over the network and serves it, the other reads its memory", async (context) => {
    const host = hostOf(context);
    const settings = ["init_replicas.policy=1", "init_replicas.rollout=1", "rollout.ranks=2", "data.delta=always"];
    const run = await runs.start(
      "far-ranks",
      ...["--steps", "48", "--policy", "1", "--rollout", "1", ...host.settings],
      ...settings.flatMap((one) => ["--set", one]),
    );
    await run.waitForEvent("job.started");
    const start = await host.open(run);
    const samplers = await Promise.all([start("rollout", "--id", "far-0"), start("rollout", "--id", "far-1")]);
    const summary = await run.ended();
    const arrivals = samplers.map(({ lines }) => arrivalsIn(lines));
    for (const each of arrivals) expect(each.length).toBeGreaterThan(5); // they join when the job is under way
    const crossed = arrivals.flat().filter(({ way }) => way !== "memory");
    const versions = new Set(arrivals.flat().map(({ version }) => version)).size;
    // One for each host, not for each replica. A replica that stands still for half a second is not waited for, and that costs a crossing.
    expect(crossed.length).toBeGreaterThanOrEqual(versions);
    expect(crossed.length).toBeLessThan(1.25 * versions);
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expect((await Promise.all(samplers.map(({ exited }) => exited))).map(({ code }) => code)).toEqual([0, 0]);
  });
});

interface Arrival {
  readonly version: number;
  readonly way: "whole" | "delta" | "memory";
  readonly bytes: number;
  readonly wireBytes: number;
}

/** How versions came to a replica, from its log. */
function arrivalsIn(lines: readonly string[]): readonly Arrival[] {
  return lines.filter((line) => line.includes("weights arrived")).map((line) => JSON.parse(line));
}
