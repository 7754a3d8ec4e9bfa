import { decodeRecord } from "@muster/actors/controller";
import { replayJournal } from "@muster/actors/internal";
import { planOf } from "@muster/machines/controller";
import { type JobRun, processesNaming } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { configOf, digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";
import { lookIntoStore } from "./support/stored-run.ts";

const snapshotRecords = 20;
/** The run gives up a controller that dies six times in ten minutes. */
const kills = 4;

let runs: Runs;
let run: JobRun;
beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start("snapshots", "--steps", "40", "--set", `limits.snapshot_records=${snapshotRecords}`);
});
afterAll(() => runs.close());

test("a controller that is killed again and again goes on from its snapshots, and the job ends with the weights of the quiet one", async () => {
  for (let kill = 1; kill <= kills; kill++) {
    await run.waitForEvent("job.started", ({ term }) => term === kill);
    await run.waitForEvent("step.committed", ({ step }) => step >= 8 * kill);
    process.kill(run.pidOf("controller"), "SIGKILL");
  }
  const summary = await run.ended();
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
});

test("its journal is a snapshot and what came after it, and still comes to the end of the job", async () => {
  const { records, replayed } = await lookIntoStore(run, async (transport) => {
    const journal = transport.journal();
    const stored = [];
    for await (const { seq, data } of journal.read(1)) stored.push({ seq, ...decodeRecord(seq, data) });
    return { records: stored, replayed: await replayJournal(journal, planOf(configOf(run))) };
  });

  const inputs = records.filter(({ part }) => !part);
  expect(replayed.seq).toBeGreaterThan(10 * snapshotRecords);
  expect(inputs.length).toBeLessThan(2 * snapshotRecords);
  expect(records[0]?.part).toMatchObject({ index: 0 });
  expect(replayed.snapshotSeq).not.toBeNull();
  expect(replayed.term).toBe(kills + 1);
  const end = run.events("job.ended").at(-1);
  const { weights, stopped } = replayed.snapshot.context.state;
  expect({ stopped, version: weights?.version, sections: weights?.sections }).toEqual({
    stopped: true,
    version: end?.version,
    sections: end?.sections,
  });
  expect(processesNaming(runs.path)).toEqual([]);
});
