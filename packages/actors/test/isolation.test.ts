import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { imbalanceOf, ledgerOf } from "@muster/machines/controller";
import { decodeMessage, fromGroupsBatch, type Trajectory } from "@muster/protocol";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

/** One step of 125 prompts with 4 samples: 500 trajectories. Nothing is purged, so that they can be looked at. */
const fiveHundred = [
  "job.steps=1",
  "batch.groups_per_step=125",
  "limits.chunk_groups=16",
  "limits.lease_groups=32",
  "evaluation.prompts=0",
  "evaluation.every_steps=0",
  "replicas.checkpoint=0",
];
const noCeiling = ["failure.abort_share_max=1", "failure.same_error_max=0"];

/** A module whose samples fail where their number, from 0 to 499, is in the list; each place in it throws its own class. */
const moduleOf = (bad: readonly number[]): string => `
const bad = new Set(${JSON.stringify(bad)});
class ParserError extends Error { name = "ParserError"; }
export default async ({ groupId, sample, engine, prompt }) => {
  const number = 4 * Number(groupId.split(".")[1]) + sample;
  if (bad.has(number)) {
    if (number % 2 === 0) throw new RangeError("no room for " + number);
    throw new ParserError("choked on " + number);
  }
  const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
  return { responseIds, logprobs, finish };
};
`;

describe("of 500 trajectories", () => {
  let folder: Awaited<ReturnType<typeof makeTempDirectory>>;
  const jobs: SmallJob[] = [];
  beforeEach(async () => {
    folder = await makeTempDirectory();
  });
  afterEach(async () => {
    for (const job of jobs.splice(0)) await job.close();
    await folder.remove();
  });

  /** Runs a job to its end whose samples of these numbers fail. */
  async function runWith(bad: readonly number[], settings: readonly string[] = []) {
    const path = join(folder.path, `generate-${bad.length}.mjs`);
    await writeFile(path, moduleOf(bad));
    const job = await openJob([...fiveHundred, `rollout.generate=${path}`, ...settings]);
    jobs.push(job);
    const controller = await job.startController();
    job.startTeam({ policy: 2, rollout: 2 });
    const end = await endOf(controller);
    const { state } = controller.snapshot().context;
    return { job, end, state, ledger: ledgerOf(state), trajectories: await trajectoriesOf(job) };
  }

  it("two bad ones, numbers 321 and 373, leave 498 that are trained, with both root causes told", async () => {
    // Their groups lie farther apart than a chunk is long, so each is told by itself.
    const { job, end, state, ledger } = await runWith([321, 373], ["limits.chunk_groups=8"]);
    expect(end.outcome).toBe("done");
    expect(ledger).toEqual({ admitted: 500, trained: 498, aborted: 2, quarantined: 0, pending: 0 });
    expect(job.events("step.committed")).toHaveLength(1);
    const told = job.events("groups.aborted").map(({ body }) => body);
    expect(told.map(({ sample }) => sample).sort()).toEqual(["1.80/1", "1.93/1"]);
    expect(told.map(({ message }) => message).sort()).toEqual(["choked on 321", "choked on 373"]);
    for (const { stack } of told.slice(0, 1)) expect(stack).toContain("generate-2.mjs");
    // One place in the module threw both: for the operator that is one root cause, met twice.
    expect(state.givenUp.causes).toMatchObject([{ name: "ParserError", failure: "user_error", count: 2 }]);
  });

  it.each([1, 7, 250, 499])(
    "%i bad ones are all accounted for, and every byte of the healthy ones stays",
    async (count) => {
      const bad = Array.from({ length: count }, (_, i) => Math.floor((i * 500) / count));
      const whole = await runWith([]);
      const { end, ledger, trajectories } = await runWith(bad, noCeiling);
      expect(end.outcome).toBe("done");
      expect(imbalanceOf(ledger)).toBe(0);
      const badOnes = new Set(bad);
      const lonely = lonelyOf(badOnes);
      expect(ledger).toMatchObject({
        admitted: 500,
        trained: 500 - count - lonely,
        aborted: count + lonely,
        pending: 0,
      });
      for (const [number, trajectory] of trajectories) {
        expect(trajectory.status === "aborted").toBe(badOnes.has(number));
        if (!badOnes.has(number)) expect(trajectory).toEqual(whole.trajectories.get(number));
      }
      expect(trajectories.size).toBe(500);
    },
  );

  it("more bad ones than the ceiling allows end the job with their root causes", async () => {
    const bad = Array.from({ length: 200 }, (_, i) => i);
    const { end } = await runWith(bad, ["failure.abort_window=500", "failure.same_error_max=0"]);
    expect(end.outcome).toBe("failed");
    expect(end.reason).toContain("over failure.abort_share_max = 0.05 of 500");
    expect(end.reason).toMatch(/\d+ × RangeError: no room for \d+ at .*generate-200\.mjs/);
    expect(end.reason).toContain("ParserError");
  });

  it("a first bad one ends the job where it fails fast", async () => {
    const { end } = await runWith([321], ["failure.fail_fast=true"]);
    expect(end).toMatchObject({ outcome: "failed" });
    expect(end.reason).toContain("1 × ParserError: choked on 321");
  });
});

/** Healthy trajectories whose siblings are all bad: with nobody to compare with they teach nothing. */
function lonelyOf(bad: ReadonlySet<number>): number {
  const healthy = Array.from({ length: 125 }, (_, group) =>
    [0, 1, 2, 3].filter((sample) => !bad.has(4 * group + sample)),
  );
  return healthy.filter(({ length }) => length === 1).length;
}

/** Everything in the groups stream, by number. */
async function trajectoriesOf(job: SmallJob): Promise<ReadonlyMap<number, Trajectory>> {
  const found = new Map<number, Trajectory>();
  for (let seq = 1; found.size < 500 && seq < 1_000; seq++) {
    const data = await job.transport.fetch("groups", seq).catch(() => null);
    if (!data) break;
    const message = decodeMessage(data);
    if (message.kind !== "groups.batch") continue;
    const groups = fromGroupsBatch(message.body);
    if (typeof groups === "string") throw new Error(groups);
    for (const { index, trajectories } of groups)
      for (const [sample, trajectory] of trajectories.entries()) found.set(4 * index + sample, trajectory);
  }
  return found;
}
