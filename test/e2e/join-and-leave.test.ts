import { readFileSync } from "node:fs";
import { join } from "node:path";
import { subjectsOf } from "@muster/protocol";
import { type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectAs } from "./support/broker.ts";
import { expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

describe("replicas of other processes", () => {
  let runs: Runs;
  let run: JobRun;
  beforeAll(async () => {
    runs = await openRuns();
    const one = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];
    // Memory and frequent checkpoints would read every version: without them `training` is published for the guest and the last checkpoint.
    const rare = ["--set", "checkpoint.memory_every=0", "--set", "checkpoint.every_steps=0"];
    run = await runs.start("open", "--steps", "60", ...one, ...rare);
    await run.waitForEvent("job.started");
  });
  afterAll(() => runs.close());

  const comeAndGo = async (role: "policy" | "rollout", isAtWork: (id: string) => Promise<unknown>) => {
    const id = `guest-${role}`;
    const guest = await runs.muster(role, "--job", "open", "--id", id, "--grace", "5s");
    const { incarnation } = await run.waitForEvent("member.joined", (event) => event.id === id);
    await isAtWork(id);
    guest.signal("SIGINT");
    const left = run.waitForEvent("member.left", (event) => event.incarnation === incarnation, 5_000);
    expect(await guest.exited).toEqual({ code: 0, signal: null });
    expect(await left).toMatchObject({ id, reason: "drained" });
  };

  test("a rollout replica that joins takes work, and Ctrl-C lets it leave within its grace", async () => {
    const transport = await connectAs(run, "controller");
    try {
      const senders = new Set<string>();
      await transport.tail({ stream: "groups", fromSeq: 1, handle: ({ subject }) => senders.add(subject) });
      const stored = (id: string) => senders.has(subjectsOf("open").groups(id));
      await comeAndGo("rollout", (id) => waitFor(() => stored(id), { what: `groups of ${id}`, timeoutMs: 20_000 }));
    } finally {
      await transport.close();
    }
  });

  test("a policy replica joins and leaves at the boundary of a step", async () => {
    await comeAndGo("policy", () => run.waitForEvent("step.committed", ({ members }) => members === 2));
    // The guest may go as soon as the next mesh is being built without it.
    await run.waitForEvent("mesh.changed", ({ epoch }) => epoch === 3);
    const meshes = run.events("mesh.changed").map(({ members }) => members);
    expect(meshes).toEqual([["policy-0"], ["policy-0", "guest-policy"], ["policy-0"]]);
  });

  test("what only a trainer reads was published for the guest and the last checkpoint alone", async () => {
    await run.ended();
    const log = readFileSync(join(run.directory, "logs", "policy-0.log"), "utf8");
    const lines = log.split("\n").filter((line) => line.includes("weights published"));
    const published = lines.map((line) => JSON.parse(line) as { readonly version: number; readonly parts: string[] });
    const versions = published.filter(({ parts }) => parts.includes("training")).map(({ version }) => version);
    // Until the mesh takes it in, the guest keeps up with what is committed, and reads each version.
    const shared = run.events("step.committed").filter(({ members }) => members === 2);
    const [first = 0] = shared.map(({ version }) => version);
    const forGuest = versions.filter((version) => version > 0 && version < 60);
    const said = `training was published of ${versions.join(", ")}; the guest trained from ${first} on`;
    expect(published.length, said).toBeGreaterThanOrEqual(61);
    expect([versions.at(0), versions.at(-1)], said).toEqual([0, 60]);
    expect(forGuest.length, said).toBeGreaterThanOrEqual(1);
    expect(
      forGuest.filter((version) => version >= first),
      said,
    ).toEqual([]);
    expect(forGuest, said).toEqual(forGuest.map((_, at) => (forGuest[0] ?? 0) + at));
  });

  test("neither is a failure: nobody died, no step started again, nothing is lost", async () => {
    const summary = await run.ended();
    expect(failuresOf(summary)).toEqual([]);
    expect(run.events("step.retried", "member.died", "member.suspected")).toEqual([]);
    expectBalanced(summary);
  });
});
