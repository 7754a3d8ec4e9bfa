import { readFileSync } from "node:fs";
import { join } from "node:path";
import { replayJournal, statusOf } from "@muster/actors/internal";
import { controllerLogic, planOf } from "@muster/machines/controller";
import { decodeStatus, encodeStatus, type JobStatus, statusKey } from "@muster/protocol";
import { type JobRun, processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { configOf, digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";
import { lookIntoStore } from "./support/stored-run.ts";

let runs: Runs;
let run: JobRun;
beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start("replayed", "--steps", "30");
});
afterAll(() => runs.close());

test("a controller that was away finds itself replaced, ends with code 75, and the job goes on under the other", async () => {
  await run.waitForEvent("step.committed", ({ step }) => step >= 3);
  const away = run.pidOf("controller");
  process.kill(away, "SIGSTOP");
  const second = await runs.muster("controller", "--job", "replayed");
  await run.waitForEvent("job.started", ({ term }) => term === 2);
  process.kill(away, "SIGCONT");
  await waitFor(() => endsOf("controller").includes(75), {
    what: "the end of the first controller",
    timeoutMs: 10_000,
  });

  const summary = await run.ended();
  // The run starts its own controller again, and either of the two may be the last.
  expect([0, 75]).toContain((await second.exited).code);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
});

test("the stored journal, replayed, passes through what was shown live and ends where the job ended", async () => {
  const statuses: string[] = [];
  const logic = {
    ...controllerLogic,
    step(snapshot, event) {
      const next = controllerLogic.step(snapshot, event);
      statuses.push(JSON.stringify(durable(asRead(shownOf(next.snapshot)))));
      return next;
    },
  } satisfies typeof controllerLogic;
  const { shown, replayed } = await lookIntoStore(run, async (transport) => {
    const stored = await transport.state().get(statusKey);
    return {
      shown: durable(decodeStatus(stored?.value ?? new Uint8Array(), "job")),
      replayed: await replayJournal(transport.journal(), planOf(configOf(run)), logic),
    };
  });

  expect(statuses).toContain(JSON.stringify(shown));
  const end = run.events("job.ended").at(-1);
  expect(replayed.term).toBe(run.events("job.started").at(-1)?.term);
  expect(shownOf(replayed.snapshot)).toMatchObject({
    phase: "stopped",
    step: end?.step,
    lineage: end?.lineage,
    version: end?.version,
    sections: end?.sections,
    ledger: end?.ledger,
    members: [],
  });
  expect(processesNaming(runs.path)).toEqual([]);
});

/** Exit codes of an actor's processes so far, as the run noted them. */
function endsOf(id: string): readonly (number | null)[] {
  const log = readFileSync(join(run.directory, "logs", "run.log"), "utf8");
  const notes = log
    .split("\n")
    .flatMap((line) => (line ? [JSON.parse(line) as { id?: string; code: number | null }] : []));
  return notes.filter((note) => note.id === id).map(({ code }) => code);
}

type Snapshot = ReturnType<typeof controllerLogic.init>["snapshot"];

const incidents = { counts: {}, open: 0, tokensWasted: 0, ettr: null };

function shownOf({ context }: Snapshot): JobStatus {
  return statusOf("replayed", context.state, {
    beats: new Map(),
    nowMs: 0,
    wallMs: 0,
    controller: { host: "here", pid: 1 },
    incidents,
    streams: {},
  });
}

/** A status after its way through the store. */
function asRead(status: JobStatus): JobStatus {
  return decodeStatus(encodeStatus(status), "job");
}

/** The part of a status that follows from the journal: all but what heartbeats and clocks put in. */
function durable({ atMs: _, controller: __, incidents: ___, streams: ____, members, ...status }: JobStatus) {
  const rows = members.map(({ id, incarnation, health, version, order }) => ({
    ...{ id, incarnation, health },
    ...{ version, order },
  }));
  return { ...status, members: rows };
}
