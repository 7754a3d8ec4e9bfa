/** Somebody with the controller's credentials writes into the journal of a job: it goes on, says so, and ends with the weights of a quiet run. */
import { encodeRecord } from "@muster/actors/internal";
import { type JobRun, waitFor } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectAs } from "./support/broker.ts";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** Stores a record between those of the controller, which writes at the same time. */
async function intrude(transport: Transport, data: Uint8Array): Promise<void> {
  const journal = transport.journal();
  const store = async (): Promise<boolean> => {
    const head = await journal.head();
    return journal.append(data, head, `foreign.${head + 1}`).then(
      () => true,
      () => false,
    );
  };
  await waitFor(store, { what: "a place between two records of the controller", timeoutMs: 10_000 });
}

const noise = Uint8Array.of(193);
/** Would end every wait of the job at once. */
const farTick = encodeRecord(1, [{ type: "controller.tick", atMs: 1e12 }], 5);

const alarmsOf = (run: JobRun) =>
  run.events("alarm.raised").flatMap(({ alarm, detail }) => (alarm === "journal" ? detail : []));

test("foreign records, while a controller acts and before the next one takes over, count for nothing", async () => {
  const run = await runs.start("intruded", "--steps", "24", "--set", "limits.snapshot_records=20");
  await run.waitForEvent("job.started");
  const transport = await connectAs(run, "controller");
  try {
    await run.waitForEvent("step.committed", ({ step }) => step >= 3);
    for (const data of [noise, farTick, noise]) await intrude(transport, data);
    await run.waitForEvent("alarm.raised", ({ alarm }) => alarm === "journal");
    const committed = run.events("step.committed").length;
    await run.waitForEvent("step.committed", ({ step }) => step >= committed + 3);
    expect(run.events("job.started")).toHaveLength(1);
    process.kill(run.pidOf("controller"), "SIGKILL");
    for (const data of [farTick, noise]) await intrude(transport, data);
    const summary = await run.ended();
    expect(run.events("job.started")).toHaveLength(2);
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expect(alarmsOf(run)[0]).toContain("of the journal's records are no controller's");
    expectBalanced(summary);
  } finally {
    await transport.close();
  }
});
