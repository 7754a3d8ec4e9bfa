import { createEnveloper, encodeMessage, subjectsOf } from "@muster/protocol";
import type { JobRun } from "@muster/testkit";
import { connectNats } from "@muster/transport";
import { generateKeys } from "@muster/transport/internal";
import { afterAll, beforeAll, expect, test } from "vitest";
import { brokerOf, connectAs } from "./support/broker.ts";
import { digestOfLocalTraining, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
let run: JobRun;
beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start("closed", "--steps", "20");
  await run.waitForEvent("job.started");
});
afterAll(() => runs.close());

test.each([
  { who: "without credentials", made: () => ({ user: "", account: "", seed: "" }) },
  { who: "with the key of another broker", made: () => generateKeys().credentials.controller },
])("a client $who does not get in", async ({ made }) => {
  const { url } = brokerOf(run);
  const credentials = made();
  await expect(
    connectNats({ url, job: run.job, name: "controller.thief.t1", credentials, connectTimeoutMs: 3_000 }),
  ).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_AUTH" });
});

test("a rollout's user can give no command, write no journal, say no event and store nothing as an operator", async () => {
  const transport = await connectAs(run, "rollout");
  try {
    const subjects = subjectsOf(run.job);
    const identity = { job: run.job, id: "rollout-0", role: "rollout", incarnation: "t1" } as const;
    const message = createEnveloper({ ...identity, wallMs: () => 0 }).stamp("replica.stop", { reason: "forged" });
    const data = encodeMessage(message);
    const forbidden = [
      subjects.command("policy-0", "replica.stop"),
      subjects.journal,
      subjects.event("job.ended"),
      subjects.report("operator", "run", "job.stop"),
      subjects.report("policy", "policy-0", "step.voted"),
      subjects.report("rollout", "rollout-0", "replica.left"),
    ];
    for (const subject of forbidden)
      await expect(transport.publish(subject, data, { msgId: subject }), subject).rejects.toMatchObject({
        code: "MUSTER_ERR_BROKER_PERMISSION",
      });
    await expect(transport.subscribe(subjects.all.events, () => {})).rejects.toMatchObject({
      code: "MUSTER_ERR_BROKER_PERMISSION",
    });
  } finally {
    await transport.close();
  }
});

test("the job does not notice", async () => {
  const summary = await run.ended();
  expect(failuresOf(summary)).toEqual([]);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
});
