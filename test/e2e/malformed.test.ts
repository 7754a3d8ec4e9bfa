import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type AnyMessage, createEnveloper, encodeMessage, type Role, subjectsOf } from "@muster/protocol";
import { type JobRun, waitFor } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { afterAll, beforeAll, expect, test } from "vitest";
import { badMessages, oversized, refusals } from "./support/bad-messages.ts";
import { connectAs } from "./support/broker.ts";
import { digestOfLocalTraining, expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

const job = "pestered";
const subjects = subjectsOf(job);
const beat = { version: null, phase: "idle", progress: 0, loopLagMs: 0, rssBytes: 0 };
const flood = 75_000;
const reason = "a message that nobody should believe";

let runs: Runs;
let run: JobRun;
beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start(job, "--steps", "60", "--metrics-port", "0");
  await run.waitForEvent("job.started");
});
afterAll(() => runs.close());

test("unreadable, oversized, unknown, misplaced and forged messages are refused and counted on every subject", async () => {
  const controllerPort = await portIn(() => readFileSync(join(run.directory, "logs", "controller.log"), "utf8"));
  await pester("operator", (transport, data, msgId) =>
    transport.publish(subjects.report("operator", "test", "job.stop"), data, { msgId }),
  );
  await pester("rollout", (transport, data, msgId) =>
    transport.publish(subjects.report("rollout", "test", "replica.left"), data, { msgId }),
  );
  await pester(
    "rollout",
    (transport, data) => transport.send(subjects.heartbeat("rollout", "test"), data),
    "heartbeat",
  );
  const transport = await connectAs(run, "rollout");
  transport.send(subjects.heartbeat("rollout", "test"), oversized);
  await transport.flush();
  await transport.close();
  await refused(controllerPort, { ...refusalsTimes(3), too_large: 1 });
});

test("so are commands that a replica gets", async () => {
  const guest = await runs.muster("rollout", "--job", job, "--id", "guest", "--metrics-port", "0");
  await run.waitForEvent("member.joined", ({ id }) => id === "guest");
  await pester("controller", (transport, data, msgId) =>
    transport.publish(subjects.command("guest", "replica.stop"), data, { msgId }),
  );
  // The subject of a command names its receiver: a wrong sender shows by what its role may not say.
  const { spoofed = 0, ...others } = refusalsTimes(1);
  await refused(await portIn(() => guest.lines.join("\n")), { ...others, wrong_role: spoofed });
});

test("what nobody reads harms nobody, and a report in the name of another life changes nothing", async () => {
  await pester("rollout", (transport, data, msgId) => transport.publish(subjects.groups("test"), data, { msgId }));
  await pester("controller", (transport, data, msgId) =>
    transport.publish(subjects.event("alarm.raised"), data, { msgId }),
  );
  const transport = await connectAs(run, "rollout", "rollout-0");
  await expect(
    transport.publish(subjects.groups("rollout-0"), oversized, { msgId: "oversized" }),
  ).rejects.toMatchObject({
    code: "MUSTER_ERR_BROKER_REFUSED",
  });
  const identity = { job, id: "rollout-0", role: "rollout", incarnation: "another-life" } as const;
  const message = createEnveloper({ ...identity, wallMs: () => 0 }).stamp("replica.left", { reason });
  await transport.publish(subjects.report("rollout", "rollout-0", "replica.left"), encodeMessage(message), {
    msgId: message.id,
  });
  await transport.close();
});

test("a flood of reports that nobody can read keeps no step from being committed", async () => {
  const before = run.events("step.committed").length;
  const transport = await connectAs(run, "rollout");
  for (let i = 0; i < flood; i++) {
    transport.send(subjects.report("rollout", "test", "replica.left"), new Uint8Array(1));
    if (i % 5_000 === 0) await transport.flush();
  }
  await transport.flush();
  await transport.close();
  await waitFor(() => run.events("step.committed").length > before, { what: "a step behind the flood" });
});

test("the job ends with the weights of a quiet one", async () => {
  const summary = await run.ended();
  // A flood that goes on for a minute is told of again.
  const alarms = failuresOf(summary).map((line) =>
    /^alarm.raised refused: a message of (\w+) test is refused /.exec(line),
  );
  expect([...new Set(alarms.map((found) => found?.[1]))]).toEqual(["operator", "rollout"]);
  expect(run.events("member.left").filter(({ reason }) => reason !== "all steps are committed")).toEqual([]);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
});

type Send = (transport: Transport, data: Uint8Array, msgId: string) => unknown;

/** Sends every bad message once, as the user of a role. */
async function pester(role: Role, send: Send, kind: "report" | "heartbeat" = "report"): Promise<void> {
  const transport = await connectAs(run, role);
  const enveloper = createEnveloper({ job, id: "test", role, incarnation: "t1", wallMs: () => 0 });
  const good = { operator: "job.stop", controller: "replica.stop" } as const;
  const message =
    kind === "heartbeat"
      ? enveloper.stamp("heartbeat.beat", beat)
      : enveloper.stamp(role === "operator" || role === "controller" ? good[role] : "replica.left", { reason });
  for (const [flaw, data] of Object.entries(badMessages(message as AnyMessage)))
    await send(transport, data, `${role}-${kind}-${flaw}`);
  await transport.flush();
  await transport.close();
}

function refusalsTimes(times: number): Record<string, number> {
  return Object.fromEntries(Object.entries(refusals).map(([why, count]) => [why, count * times]));
}

/** Waits until the process has refused as many messages as expected, and compares the reasons. */
async function refused(port: number, expected: Record<string, number>): Promise<void> {
  const sum = (counts: Record<string, number>) => Object.values(counts).reduce((total, count) => total + count, 0);
  let seen: Record<string, number> = {};
  await waitFor(
    async () => {
      seen = refusalsIn(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
      return sum(seen) >= sum(expected);
    },
    { what: `${sum(expected)} refusals`, detail: () => seen },
  );
  expect(seen).toEqual(expected);
}

function refusalsIn(text: string): Record<string, number> {
  const rows = text.matchAll(/^muster_mailbox_refused_total\{reason="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...rows].map(([, why = "", count]) => [why, Number(count)]));
}

/** The port that a process says it serves its metrics on. */
function portIn(log: () => string): Promise<number> {
  const said = () => /"port":(\d+).*metrics are served/.exec(log())?.[1];
  return waitFor(() => Number(said()) || null, { what: "the port of the metrics", timeoutMs: 10_000, detail: log });
}
