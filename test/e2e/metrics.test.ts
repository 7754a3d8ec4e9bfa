import { type ActorProcess, type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { failuresOf, openRuns, type Runs } from "./support/small-job.ts";

const job = "measured";

let runs: Runs;
let run: JobRun;
beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start(job, "--steps", "400");
  // Who comes after a commit pulls the weights that were committed.
  await run.waitForEvent("step.committed");
});
afterAll(() => runs.close());

test("the metrics pages of replicas of every role show the bytes, seconds and outcomes of what they move", async () => {
  const join = (role: string) => runs.muster(role, "--job", job, "--id", `guest-${role}`, "--metrics-port", "0");
  const [policy, rollout, checkpoint] = await Promise.all(["policy", "rollout", "checkpoint"].map(join));
  const pulled = ["dcs_recv_operations_total", "dcs_recv_latency_seconds_count", "dcs_bytes_received_total"];
  await shows(rollout, pulled);
  await shows(policy, [
    ...pulled,
    ...["dcs_send_operations_total", "dcs_send_latency_seconds_count", "dcs_bytes_sent_total"],
    ...["dcs_allreduce_operations_total", "dcs_allreduce_latency_seconds_count", "dcs_bytes_reduced_total"],
  ]);
  await shows(checkpoint, [
    ...pulled,
    ...["dcs_save_operations_total", "dcs_save_latency_seconds_count", "dcs_bytes_saved_total"],
  ]);
  await runs.muster("stop", "--job", job);
  expect(failuresOf(await run.ended())).toEqual([]);
});

/** Waits until the page of the process has a successful count above 0 of each of these. */
async function shows(process: ActorProcess | undefined, names: readonly string[]): Promise<void> {
  const log = (): string => process?.lines.join("\n") ?? "";
  const said = (): number => Number(/"port":(\d+).*metrics are served/.exec(log())?.[1]);
  const port = await waitFor(() => said() || null, { what: "the port of the metrics", timeoutMs: 20_000, detail: log });
  let page = "";
  const missing = (): readonly string[] =>
    names.filter((name) => !new RegExp(`^${name}(\\{outcome="ok"\\})? [1-9]`, "m").test(page));
  await waitFor(
    async () => {
      page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return missing().length === 0;
    },
    {
      what: "all numbers on the page",
      timeoutMs: 30_000,
      detail: () => ({ missing: missing(), log: log().slice(-800) }),
    },
  );
}
