/** What a liar says has the form of the truth, and a fact in it that is not so. */
import { decodeMessage, encodeMessage, type Message } from "@muster/protocol";
import type { ConsumeOptions } from "@muster/transport";
import { expect, it } from "vitest";
import { Liar } from "../../src/faults/liar.ts";
import { modelsOf } from "../support/models.ts";

const subject = "muster.test.reports.rollout.rollout-1.groups.completed";
const receipt = {
  step: 1,
  index: 0,
  attempt: 0,
  streamSeq: 1,
  version: 0,
  completed: 4,
  aborted: 0,
  tokens: 9,
  rewardSum: 1,
};
const truth = {
  ...{ v: 1, id: "r1", kind: "groups.completed", job: "test", from: "rollout-1", role: "rollout", incarnation: "i1" },
  ...{ seq: 7, term: 1, epoch: 1, deadlineMs: null, sentAtMs: 0 },
  body: { leaseId: "1-1", receipts: [receipt], causes: [], durationMs: 5 },
} as Message<"groups.completed">;

it("lies under the name and life of who spoke, in a message of its own that its receiver can read", async () => {
  const { network, world, process, runFor } = modelsOf();
  const told: Uint8Array[] = [];
  const sender = await network.connect(process("rollout-1", "rollout"));
  void sender.publish(subject, encodeMessage(truth), { msgId: truth.id });
  await runFor(100);
  const options: Omit<ConsumeOptions, "handle"> = {
    stream: "reports",
    consumer: "c",
    filter: "muster.test.reports.>",
    deliver: "all",
    maxPending: 99,
  };
  await network.store.consume({ ...options, handle: ({ data }) => void told.push(data) });
  const liar = new Liar(network, world.random(1));
  const lies = Array.from({ length: 20 }, () => liar.lie(["groups.completed"]));
  await runFor(100);
  const [first, ...others] = told.map((data) => decodeMessage(data));
  expect(first).toEqual(truth);
  expect(others).toHaveLength(lies.filter((lie) => lie !== null).length);
  expect(others.length).toBeGreaterThan(15);
  for (const { from, role, incarnation, kind, body, seq } of others) {
    expect({ from, role, incarnation, kind }).toEqual({
      from: "rollout-1",
      role: "rollout",
      incarnation: "i1",
      kind: "groups.completed",
    });
    expect(body).not.toEqual(truth.body);
    expect(seq).toBeGreaterThan(1e9);
  }
  expect(new Set(lies.map((lie) => lie?.field)).size).toBeGreaterThan(5);
});

it("says nothing of what nobody spoke about", () => {
  const { network, world } = modelsOf();
  expect(new Liar(network, world.random(1)).lie(["step.voted"])).toBe(null);
});
