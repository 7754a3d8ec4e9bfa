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
    run = await runs.start("open", "--steps", "60", ...one);
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

  test("neither is a failure: nobody died, no step started again, nothing is lost", async () => {
    const summary = await run.ended();
    expect(failuresOf(summary)).toEqual([]);
    expect(run.events("step.retried", "member.died", "member.suspected")).toEqual([]);
    expectBalanced(summary);
  });
});
