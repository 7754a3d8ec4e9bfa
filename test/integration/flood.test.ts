/** One sender that never stops, on a real broker: the others are heard within a bound. */
import { type Controller, startController } from "@muster/actors/controller";
import { createEnveloper, encodeMessage, type Message, subjectsOf } from "@muster/protocol";
import { connectRaw, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { config, environmentOf } from "./support/controller.ts";

const subjects = subjectsOf("test");
let server: TestServer;
let controller: Controller;

beforeAll(async () => {
  server = await startTestServer();
  controller = await startController({
    config,
    dataKey: new Uint8Array(32),
    environment: environmentOf(server, () => "c1"),
  });
});
afterAll(async () => {
  controller.abort("the test is over");
  await controller.ended;
  await server.close();
});

/** Comes as a trainer. @returns After how many milliseconds the controller knew it. */
async function join(id: string): Promise<number> {
  const transport = await server.connect(`policy.${id}.a1`);
  const enveloper = createEnveloper({ job: "test", id, role: "policy", incarnation: "a1", wallMs: Date.now });
  const body = { role: "policy" as const, host: "h", pid: 7, engineBuild: "b" };
  const message = enveloper.stamp("replica.register", body) as Message;
  const subject = subjects.report("policy", id, message.kind);
  const startedMs = performance.now();
  await transport.publish(subject, encodeMessage(message), { msgId: message.id, timeoutMs: boundMs });
  const isMember = () => controller.snapshot().context.state.members[id];
  await waitFor(isMember, { what: `${id} to be a member`, timeoutMs: boundMs });
  return performance.now() - startedMs;
}

/** How long the others may wait: a few hundred reports of one byte, and room for a machine that does other things. */
const boundMs = 5_000;
const flood = 75_000;

test("75,000 reports of one byte keep nobody else waiting", { timeout: 120_000 }, async () => {
  await join("policy-0");
  const attacker = await connectRaw(server, "rollout", "r0");
  for (let i = 0; i < flood; i++) {
    attacker.publish("muster.test.reports.rollout.r0.replica.left", new Uint8Array(1));
    if (i % 5_000 === 0) await attacker.flush();
  }
  await attacker.flush();
  const tookMs = await join("policy-1");
  expect(tookMs).toBeLessThan(boundMs);
  await attacker.close();
});

test("1,780 lives of one replica that register at once keep nobody else waiting, and one of them is a member", {
  timeout: 120_000,
}, async () => {
  const attacker = await connectRaw(server, "rollout", "r1");
  const body = { role: "rollout" as const, host: "h", pid: 7, engineBuild: "b" };
  for (let life = 0; life < 1_780; life++) {
    const identity = { job: "test", id: "r1", role: "rollout" as const, incarnation: `a${life}`, wallMs: Date.now };
    const message = createEnveloper(identity).stamp("replica.register", body) as Message;
    attacker.publish(subjects.report("rollout", "r1", message.kind), encodeMessage(message));
  }
  await attacker.flush();
  expect(await join("policy-2")).toBeLessThan(boundMs);
  await attacker.close();
  const members = Object.values(controller.snapshot().context.state.members);
  expect(members.filter(({ role }) => role === "rollout").map(({ id }) => id)).toEqual(["r1"]);
});
