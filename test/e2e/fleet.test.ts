/** The fleet on real processes: nodes that run what the controller places, and operators who change it while the job trains. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, nothingLeft, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const timeoutMs = 60_000;

/** Gives a command to the job and waits for its end. @returns Exit code and output. */
async function give(run: JobRun, command: string, ...args: string[]) {
  const operator = await runs.muster(command, "--job", run.job, ...args);
  const { code } = await operator.exited;
  return { code, said: operator.lines.join("\n") };
}

const livesOf = (run: JobRun, id: string) => run.events("member.joined").filter((event) => event.id === id);
const nodeOf = (run: JobRun, id: string) => run.events("fleet.changed").findLast((event) => event.id === id)?.node;
const healthOf = (run: JobRun, id: string) => run.events("fleet.changed").findLast((event) => event.id === id)?.to;
const hasLeft = (run: JobRun, id: string) =>
  run.waitForEvent("fleet.changed", (event) => event.id === id && event.to === "LEFT");

describe("while a job trains", () => {
  let run: JobRun;
  beforeAll(async () => {
    const small = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];
    run = await runs.start("fleet", "--steps", "700", "--nodes", "2", ...small);
    await run.waitForEvent("step.committed");
  });

  test("scaling up starts replicas on the nodes and is done when they are healthy; scaling down releases the youngest", async () => {
    const up = await give(run, "scale", "rollout=3", "policy=2", "--json");
    expect(up.code, up.said).toBe(0);
    expect(JSON.parse(up.said)).toMatchObject({ kind: "fleet.scale", outcome: "done" });
    for (const id of ["policy-0", "policy-1", "rollout-0", "rollout-1", "rollout-2"])
      expect(healthOf(run, id), id).toBe("HEALTHY");
    expect((await give(run, "scale", "rollout=1", "policy=1")).code).toBe(0);
    for (const id of ["policy-1", "rollout-1", "rollout-2"]) await hasLeft(run, id);
    expect(run.events("member.died")).toEqual([]);
  });

  test("a replacement comes first and the old one leaves then; the same command id is done once, whoever sends it again", async () => {
    const args = ["rollout-0", "--command-id", "swap-1"];
    const [one, two] = await Promise.all([give(run, "replace", ...args), give(run, "replace", ...args)]);
    expect([one.code, two.code], `${one.said}\n${two.said}`).toEqual([0, 0]);
    const joined = run.events("member.joined", "member.left");
    const at = (kind: string, id: string) => joined.findIndex((event) => event.kind === kind && event.id === id);
    expect(at("member.joined", "rollout-3")).toBeGreaterThan(0);
    expect(at("member.left", "rollout-0")).toBeGreaterThan(at("member.joined", "rollout-3"));
    expect(livesOf(run, "rollout-4")).toEqual([]);
  });

  test("what cannot be is refused with the field, the value and the way out", async () => {
    const unknown = await give(run, "cordon", "nobody");
    expect(unknown).toMatchObject({ code: 2, said: expect.stringContaining('id = "nobody" is no replica or node') });
    const tooMany = await give(run, "send", "fleet.scale", "--json", '{"policy":99}');
    expect(tooMany).toMatchObject({ code: 2, said: expect.stringContaining("batch.micro_shards = 8") });
    const other = await give(run, "replace", "rollout-3", "--command-id", "swap-1");
    expect(other).toMatchObject({ code: 2, said: expect.stringContaining("draw another id") });
    const guest = await give(run, "scale", "roolout=4");
    expect(guest).toMatchObject({ code: 2, said: expect.stringContaining("roles are policy, rollout, checkpoint") });
  });

  test("a cordoned node gets no new replicas until it is uncordoned", async () => {
    expect((await give(run, "cordon", "node-1")).code).toBe(0);
    expect((await give(run, "scale", "rollout=3")).code).toBe(0);
    expect([nodeOf(run, "rollout-4"), nodeOf(run, "rollout-5")]).toEqual(["node-0", "node-0"]);
    expect((await give(run, "uncordon", "node-1")).code).toBe(0);
    expect((await give(run, "scale", "rollout=4")).code).toBe(0);
    expect(nodeOf(run, "rollout-6")).toBe("node-1");
  });

  test("a signal goes through the node; the replica comes back through STALE", async () => {
    const { code, said } = await give(run, "kill", "rollout-3", "--signal", "KILL");
    expect(code, said).toBe(0);
    await run.waitForEvent("member.joined", () => livesOf(run, "rollout-3").length === 2);
    await waitFor(() => healthOf(run, "rollout-3") === "HEALTHY", { what: "rollout-3 healthy", timeoutMs });
    const moves = run.events("fleet.changed").filter(({ id }) => id === "rollout-3");
    expect(moves.map(({ to }) => to).slice(-4)).toEqual(["DEAD", "RESTARTING", "STALE", "HEALTHY"]);
  });

  test("kill -9 of a node: its replicas run again in seconds, and training goes on", async () => {
    const own = ["rollout-3", "rollout-4", "rollout-5", "rollout-6", "policy-0"].filter(
      (id) => nodeOf(run, id) === "node-0",
    );
    expect(own.length).toBeGreaterThan(0);
    const lives = new Map(own.map((id) => [id, livesOf(run, id).length]));
    process.kill(run.pidOf("node-0"), "SIGKILL");
    for (const id of own)
      await run.waitForEvent("member.joined", () => livesOf(run, id).length > (lives.get(id) ?? 0), timeoutMs);
    const step = run.events("step.committed").at(-1)?.step ?? 0;
    await run.waitForEvent("step.committed", (event) => event.step > step + 2, timeoutMs);
  });

  test("a new controller knows what the former one was told", async () => {
    process.kill(run.pidOf("controller"), "SIGKILL");
    await run.waitForEvent("job.started", ({ term }) => term === 2);
    const { code, said } = await give(run, "replace", "rollout-0", "--command-id", "swap-1", "--json");
    expect(code, said).toBe(0);
    expect(JSON.parse(said)).toMatchObject({ outcome: "done", detail: "rollout-3 took the place of rollout-0" });
    const status = JSON.parse((await give(run, "status", "--json")).said);
    expect(status.fleet.wanted).toEqual({ policy: 1, rollout: 4, checkpoint: 1 });
  });

  test("every command is in the audit file with who, what and result, and the weights are those of training in one process", async () => {
    const summary = await run.ended();
    const path = join(run.directory, "audit.jsonl");
    expect(existsSync(path)).toBe(true);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    const swap = lines.map((line) => JSON.parse(line)).filter(({ body }) => body.commandId === "swap-1");
    expect(swap[0]).toMatchObject({
      kind: "command.accepted",
      body: { kind: "replica.replace", by: expect.stringMatching(/^muster i/) },
    });
    expect(swap.some(({ kind, body }) => kind === "command.done" && body.outcome === "done")).toBe(true);
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expectBalanced(summary);
  });
});

/** Ends a run that would train for long with its test, also when that fails, so that the next one finds the machine free. */
function endWithTest(run: JobRun): void {
  onTestFinished(async () => void (await run.process.kill()));
}

test("three policy and twenty rollout replicas that come within the window for joins are one epoch", async () => {
  const small = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];
  const run = await runs.start("crowd", "--steps", "100000", "--set", "timing.join=20s", ...small);
  endWithTest(run);
  await run.waitForEvent("step.committed");
  const { code, said } = await give(run, "scale", "policy=4", "rollout=21", "--timeout", "120s");
  expect(code, said).toBe(0);
  await run.waitForEvent("mesh.changed", ({ members }) => members.length === 4, timeoutMs);
  // Only meshes that stood are said; a member that was silent for a moment while one was being joined costs another number.
  // One that was alone and silent for a moment, on a machine on which 25 processes start, may be so in several.
  const sizes = run.events("mesh.changed").map(({ members }) => members.length);
  expect(sizes.filter((size, i) => size !== sizes[i - 1])).toEqual([1, 4]);
  process.kill(-run.process.pid, "SIGINT");
  await run.process.exited;
  await nothingLeft(runs.path);
});

test("a drained node keeps each replica until another one is healthy elsewhere; steps go on, and nobody dies", async () => {
  const run = await runs.start("move", "--steps", "100000", "--nodes", "2");
  endWithTest(run);
  await run.waitForEvent("step.committed");
  // Whichever node came first has everything.
  const [from, to] = nodeOf(run, "policy-0") === "node-0" ? ["node-0", "node-1"] : ["node-1", "node-0"];
  const placed = run.events("fleet.changed").filter((event) => event.node === from && event.to === "STARTING");
  const own = [...new Set(placed.map(({ id }) => id))];
  const { code, said } = await give(run, "drain", from, "--timeout", "90s");
  expect(code, said).toBe(0);
  const moves = run.events("fleet.changed");
  for (const id of own) {
    const left = moves.findIndex((event) => event.id === id && event.to === "DRAINING");
    const [, successor] = moves.flatMap((event) => (event.reason === `to ${to} for ${id}` ? [id, event.id] : []));
    const healthy = moves.findIndex((event) => event.id === successor && event.to === "HEALTHY");
    expect(healthy, `${successor} was healthy before ${id} went`).toBeGreaterThan(0);
    expect(left, `${id} went after ${successor} was healthy`).toBeGreaterThan(healthy);
    expect(moves.some((event) => event.id === id && event.to === "LEFT")).toBe(true);
  }
  expect(run.events("member.died")).toEqual([]);
  const step = run.events("step.committed").at(-1)?.step ?? 0;
  await run.waitForEvent("step.committed", (event) => event.step > step + 1);
  process.kill(-run.process.pid, "SIGKILL");
  await run.process.exited;
  await nothingLeft(runs.path);
});

test("a replica that keeps ending is given up, and another one takes its place on another node", async () => {
  const run = await runs.start("loop", "--steps", "100000", "--nodes", "2", "--rollout", "2");
  endWithTest(run);
  await run.waitForEvent("step.committed");
  const seen = new Set<number>();
  const next = () => {
    try {
      const pid = run.pidOf("rollout-1");
      return seen.has(pid) ? null : pid;
    } catch {
      return null; // between two lives there is no process
    }
  };
  for (let death = 1; death <= 6; death++) {
    const pid = await waitFor(next, { what: `life ${death} of rollout-1`, timeoutMs: 30_000 });
    seen.add(pid);
    process.kill(pid, "SIGKILL");
  }
  const retired = await run.waitForEvent("fleet.changed", ({ id, to }) => id === "rollout-1" && to === "RETIRED");
  expect(retired).toMatchObject({ deaths: 6, reason: expect.stringContaining("SIGKILL") });
  await run.waitForEvent("alarm.raised", ({ alarm }) => alarm === "retired");
  await run.waitForEvent("member.joined", ({ id }) => id === "rollout-2");
  expect(nodeOf(run, "rollout-2")).not.toBe(retired.node);
  process.kill(-run.process.pid, "SIGKILL");
  await run.process.exited;
  await nothingLeft(runs.path);
});
