import type { JobStatus } from "@muster/protocol";
import { waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

describe("a job that wants two policy and two rollout replicas", () => {
  let runs: Runs;
  beforeAll(async () => {
    runs = await openRuns();
  });
  afterAll(() => runs.close());

  // Long enough to be seen by muster status, which is written once a second.
  test("gathers them, gives the first weights once, builds mesh epoch 1, and only then trains", async () => {
    const run = await runs.start("gather", "--steps", "100", "--set", "init_replicas.rollout=2");
    const status = await waitFor(() => shownOf(runs), {
      what: "a status in which every replica has a heartbeat",
      timeoutMs: 30_000,
    });
    expect(status).toMatchObject({ job: "gather", term: 1, steps: 100, lineage: 0 });
    await run.ended();

    const joined = run.events("member.joined");
    expect(joined.map(({ id }) => id).sort()).toEqual([
      "checkpoint-0",
      "node-0",
      "policy-0",
      "policy-1",
      "rollout-0",
      "rollout-1",
    ]);
    expect(run.events("mesh.changed")).toMatchObject([{ epoch: 1, members: expect.arrayContaining(["policy-1"]) }]);
    const story = run.events("job.started", "member.joined", "mesh.changed", "step.committed", "job.ended");
    const last = (kind: string): number => story.findLastIndex((event) => event.kind === kind);
    const first = (kind: string): number => story.findIndex((event) => event.kind === kind);
    const rollouts = story.filter(({ kind }, at) => kind === "member.joined" && at > first("step.committed"));
    expect(rollouts.filter((event) => event.kind === "member.joined" && event.role === "rollout")).toEqual([]);
    expect([first("job.started"), last("job.ended")]).toEqual([0, story.length - 1]);
    expect(first("mesh.changed")).toBeLessThan(first("step.committed"));
    const commits = run.events("step.committed");
    expect(commits.map(({ step }) => step)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
    expect(new Set(commits.map(({ epoch, members }) => `${epoch}/${members}`))).toEqual(new Set(["1/2"]));
  });
});

/** The status of `muster status`, once every member's heartbeat is in it. */
async function shownOf(runs: Runs): Promise<JobStatus | null> {
  const process = await runs.muster("status", "--json");
  const { code } = await process.exited;
  if (code !== 0) return null;
  const status = JSON.parse(process.lines.join("\n")) as JobStatus;
  const seen = status.members.filter(({ beatAgeMs }) => beatAgeMs !== null && beatAgeMs < 3_000);
  return seen.length === 6 ? status : null;
}
