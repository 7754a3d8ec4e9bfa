/**
 * Scripts that wait for each other with `muster barrier`: nobody hangs when one of them dies, in whichever phase. Takes more than 20 s on a busy machine: a dozen
 * processes of the command line start, one after the other.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connectJob, type JobClient } from "@muster/client";
import { type ActorProcess, type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

const phases = 14;
/** The commit says which of the phases are tried; by hand (`MUSTER_CI_TURN` unset) all of them are. */
const turn = process.env.MUSTER_CI_TURN;
const tried = Array.from({ length: phases }, (_, phase) => phase).filter(
  (phase) => turn === undefined || phase % 7 === Number(turn) % 7,
);

let runs: Runs;
let run: JobRun;
let client: JobClient;
beforeAll(async () => {
  runs = await openRuns();
  // Nobody gets the device that replicas wait for: the job only keeps the barriers.
  const waiting = ["devices.policy=1", "devices.rollout=1"].flatMap((set) => ["--set", set]);
  run = await runs.start("barriers", "--checkpoint", "0", "--devices", "none", ...waiting);
  await run.waitForEvent("job.started");
  const { url, credentials } = JSON.parse(readFileSync(join(run.directory, "credentials", "operator.json"), "utf8"));
  client = await connectJob({ url, job: run.job, credentials: credentials.operator });
});
afterAll(async () => {
  await client.close();
  run.process.signal("SIGINT");
  await run.process.exited;
  await runs.close();
});

interface Answer {
  readonly outcome: string;
  readonly missing: readonly number[];
  readonly coverage: number;
  readonly shares: readonly object[];
  readonly decision?: string;
}

const arrive = (rank: number, phase: number, iteration: number, ...args: readonly string[]): Promise<ActorProcess> => {
  const who = ["--rank", `${rank}`, "--ranks", "3", "--rank-weights", "2,1,1", "--iteration", `${iteration}`];
  return runs.muster("barrier", `${phase}`, "--job", "barriers", "--json", ...who, ...args);
};

async function answerOf(process: ActorProcess): Promise<{ readonly code: number | null } & Answer> {
  const { code } = await process.exited;
  const line = process.lines.find((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(`no answer: ${process.lines.join("\n")}`);
  return { code, ...(JSON.parse(line) as Answer) };
}

describe("three ranks of a script", () => {
  test("go on within the same moment, with what rank 0 decided and their shares of the work", async () => {
    const ranks = await Promise.all([
      arrive(0, 0, 1, "--items", "512", "--decision", "eval"),
      arrive(1, 0, 1, "--items", "512"),
      arrive(2, 0, 1, "--items", "512"),
    ]);
    const answers = await Promise.all(ranks.map(answerOf));
    for (const answer of answers) {
      expect(answer).toMatchObject({ code: 0, outcome: "whole", missing: [], decision: "eval" });
      expect(answer.shares).toEqual([
        { rank: 0, from: 0, to: 256 },
        { rank: 1, from: 256, to: 384 },
        { rank: 2, from: 384, to: 512 },
      ]);
    }
  });

  test.each(tried)("of which one does not come to phase %i go on without it, and do what it left", async (phase) => {
    const iteration = 10 + 2 * phase;
    const done = [[{ from: 0, to: 4 }], [{ from: 4, to: 6 }], []];
    const rules = { ranks: 3, weights: [2, 1, 1], onMissing: "eject" as const, quorum: 2, timeoutMs: 1_000, items: 8 };
    const come = (rank: number, at: { readonly iteration: number; readonly phase: number }) =>
      client.arrive({ epoch: 0, ...at, rank, ...rules, done: done[rank] ?? [] }, { timeoutMs: 20_000 });
    const shares = [
      { rank: 0, from: 6, to: 7 },
      { rank: 1, from: 7, to: 8 },
    ];
    for (const answer of await Promise.all([0, 1].map((rank) => come(rank, { iteration, phase }))))
      expect(answer).toMatchObject({ outcome: "partial", missing: [2], coverage: 0.75, shares });
    // It comes back before the others are at the next phase 0, and is one of them again.
    const next = { iteration: iteration + 1, phase: 0 };
    for (const answer of await Promise.all([2, 0, 1].map((rank) => come(rank, next))))
      expect(answer).toMatchObject({ outcome: "whole", arrived: [0, 1, 2] });
  });

  test("wait across the death of the controller, and nobody who was there is asked again", async () => {
    const waiting = await Promise.all([arrive(0, 3, 500), arrive(1, 3, 500)]);
    // An arrival is stored when the job has heard of it; the next controller reads what the last one had not.
    await waitFor(() => waiting.every(({ lines }) => lines.length === 0), {
      what: "two ranks that wait",
      timeoutMs: 5_000,
    });
    process.kill(run.pidOf("controller"), "SIGKILL");
    const last = await arrive(2, 3, 500);
    for (const each of [...waiting, last]) expect(await answerOf(each)).toMatchObject({ code: 0, outcome: "whole" });
  });

  test("are refused by name and fix where they contradict each other", async () => {
    const waiting = await arrive(0, 5, 600, "--timeout", "2s", "--on-missing", "abort");
    const odd = await runs.muster(
      "barrier",
      "5",
      "--job",
      "barriers",
      "--iteration",
      "600",
      "--ranks",
      "3",
      "--rank",
      "3",
    );
    expect((await odd.exited).code).toBe(2);
    expect(odd.lines.join("\n")).toContain("--rank: 3 is no rank of 3; use 0 to 2");
    expect(await answerOf(waiting)).toMatchObject({ code: 1, outcome: "aborted", missing: [1, 2] });
  });
});
