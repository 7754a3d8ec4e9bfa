/** Processes of another release: those of another major version are refused, and both sides say which versions met; those of a newer minor one work. */
import { type AnyMessage, createEnveloper, decodeMessage, pack, subjectsOf } from "@muster/protocol";
import { newerMinor } from "@muster/testkit";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { policyRole } from "./support/roles.ts";
import { endsOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 30_000 });

let job: SmallJob;
beforeEach(async () => {
  job = await openJob();
});
afterEach(() => job.close());

const versions = "message of protocol version 2, this build speaks 1";

/** Sends a message as a later release would. */
async function sayLater(subject: string, message: AnyMessage): Promise<void> {
  await job.transport.publish(subject, pack({ ...message, v: 2, later: true }), { msgId: message.id });
}

it("a replica of another release is refused, the operator hears who it is, and a member of that id goes on", async () => {
  await job.startController();
  const [member] = job.startTeam({ policy: 2, rollout: 1 });
  await job.when("step.committed", ({ step }) => step === 1);
  const subjects = subjectsOf(job.config.job);
  const told: AnyMessage[] = [];
  await job.transport.consume({
    stream: "commands",
    consumer: "later",
    filter: subjects.command("policy-0", "replica.refused"),
    deliver: "new",
    maxPending: 8,
    handle: (delivery) => {
      told.push(decodeMessage(delivery.data));
      delivery.ack();
    },
  });
  const later = createEnveloper({
    job: job.config.job,
    id: "policy-0",
    role: "policy",
    incarnation: "l1",
    wallMs: Date.now,
  });
  const body = { role: "policy", host: "h", pid: 1, engineBuild: "b" } as const;
  const asked = [later.stamp("replica.register", body), later.stamp("replica.register", body)] as AnyMessage[];
  const where = subjects.report("policy", "policy-0", "replica.register");
  await Promise.all(asked.map((message) => sayLater(where, message)));

  const { body: alarm } = await job.when("alarm.raised", (raised) => raised.alarm === "version");
  expect(alarm.detail).toContain(`policy policy-0 is not admitted: ${versions}`);
  await vi.waitFor(() => expect(told).not.toEqual([]), { timeout: 10_000 });
  expect(told[0]?.body).toMatchObject({ reason: expect.stringContaining(versions) });
  await job.when("job.ended");
  expect(job.events("alarm.raised").filter((raised) => raised.body.alarm === "version")).toHaveLength(1);
  expect(member?.lives).toHaveLength(1);
});

it("a replica that hears a controller of another release ends, and says which versions met", async () => {
  await job.startController();
  const replica = job.startReplica(policyRole, "policy-0");
  await job.when("member.joined");
  const subjects = subjectsOf(job.config.job);
  const { config } = job;
  const later = createEnveloper({
    job: config.job,
    id: "controller",
    role: "controller",
    incarnation: "l1",
    wallMs: Date.now,
  });
  await sayLater(
    subjects.command("policy-0", "replica.stop"),
    later.stamp("replica.stop", { reason: "later" }) as AnyMessage,
  );
  const [end] = await endsOf([replica]);
  expect(end).toMatchObject({
    outcome: "refused",
    reason: expect.stringContaining(`the controller sent a ${versions}`),
  });
});

it.each([
  [
    "replicas of a newer minor version run in one job with those of this one",
    ["policy-1", "rollout-0", "checkpoint-0"],
  ],
  [
    "replicas run under a controller of a newer minor version, and leave aside what they do not know of it",
    ["controller"],
  ],
])("%s, and come to the same weights", async (_, newer) => {
  const digests: unknown[] = [];
  const said = { count: 0 };
  for (const isMixed of [false, true]) {
    const mixed = await openJob([], ({ id }, transport) =>
      isMixed && newer.includes(id) ? newerMinor(transport, said) : transport,
    );
    try {
      await mixed.startController();
      const team = mixed.startTeam({ policy: 2, rollout: 2 });
      const { body } = await mixed.when("job.ended");
      expect(body.outcome).toBe("done");
      digests.push(body.sections);
      expect(mixed.events("message.refused")).toEqual([]);
      expect(mixed.events("checkpoint.kept")).not.toEqual([]);
      expect((await endsOf(team)).map(({ outcome }) => outcome)).not.toContain("refused");
    } finally {
      await mixed.close();
    }
  }
  expect(said.count).toBeGreaterThan(20);
  expect(digests[1]).toEqual(digests[0]);
});

it("a replica that is too old for its controller is told so in one sentence, and the others go on without it", async () => {
  const said = { count: 0 };
  const mixed = await openJob([], ({ id }, transport) =>
    id === "rollout-1" ? transport : newerMinor(transport, said),
  );
  try {
    await mixed.startController({ minorLeast: 1 });
    const team = mixed.startTeam({ policy: 2, rollout: 2 });
    const sentence =
      "message of protocol version 1.0, and 1.1 is the oldest that this build takes: start its process again with the release of the others";
    const { body: alarm } = await mixed.when("alarm.raised", (raised) => raised.alarm === "version");
    expect(alarm.detail).toBe(`rollout rollout-1 is not admitted: ${sentence}`);
    expect((await mixed.when("job.ended")).body.outcome).toBe("done");
    const ends = await endsOf(team);
    expect(ends[3]).toMatchObject({ outcome: "refused", reason: expect.stringContaining(sentence) });
    expect(ends.filter(({ outcome }) => outcome === "refused")).toHaveLength(1);
  } finally {
    await mixed.close();
  }
});
