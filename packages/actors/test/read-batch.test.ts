import {
  type Body,
  encodeMessage,
  groupIdOf,
  type Kind,
  subjectsOf,
  type TrajectoryGroup,
  toGroupsBatch,
} from "@muster/protocol";
import { createEnveloper } from "@muster/runtime";
import { createMemoryBroker } from "@muster/transport";
import { beforeEach, describe, expect, it } from "vitest";
import { readBatch } from "../src/policy/read-batch.ts";
import { group, trajectory } from "./support/groups.ts";

const job = "job";
const step = 3;
const groupOf = (index: number, reward = 0): TrajectoryGroup => group(step, index, [trajectory({ reward })]);
const idOf = (index: number): string => groupIdOf(step, index);

describe("reading the batch of a step", () => {
  let transport: ReturnType<ReturnType<typeof createMemoryBroker>["connect"]>;
  let stored: number;
  const enveloper = createEnveloper({ job, id: "rollout-0", role: "rollout", incarnation: "i1", wallMs: () => 0 });

  beforeEach(() => {
    transport = createMemoryBroker({ job }).connect("policy.policy-0.i1");
    stored = 0;
  });

  /** Stores bytes in the groups stream. @returns Their sequence. */
  async function storeBytes(data: Uint8Array): Promise<number> {
    const { seq } = await transport.publish(subjectsOf(job).groups("rollout-0"), data, { msgId: `m${++stored}` });
    return seq;
  }
  const store = <K extends Kind>(kind: K, body: Body<K>): Promise<number> =>
    storeBytes(encodeMessage(enveloper.stamp(kind, body)));
  const storeGroups = (...groups: readonly TrajectoryGroup[]): Promise<number> =>
    store("groups.batch", toGroupsBatch(groups));

  it("gives the named groups of all messages in the order of the batch, with their tokens", async () => {
    const first = await storeGroups(groupOf(0), groupOf(1, 1));
    const second = await storeGroups(groupOf(2, 0.5));
    const batch = [
      { streamSeq: second, groupIds: [idOf(2)] },
      { streamSeq: first, groupIds: [idOf(0), idOf(1)] },
    ];
    expect(await readBatch(transport, { step, batch })).toEqual([groupOf(2, 0.5), groupOf(0), groupOf(1, 1)]);
  });

  it("leaves out the groups of a message that the batch does not name", async () => {
    const seq = await storeGroups(groupOf(0), groupOf(1), group(step + 1, 1, [trajectory()]));
    const groups = await readBatch(transport, { step, batch: [{ streamSeq: seq, groupIds: [idOf(1)] }] });
    expect(groups).toEqual([groupOf(1)]);
  });

  it("refuses a batch whose messages lack a named group, and counts what is missing", async () => {
    const seq = await storeGroups(groupOf(0));
    const batch = [{ streamSeq: seq, groupIds: [idOf(0), idOf(1), idOf(2)] }];
    await expect(readBatch(transport, { step, batch })).rejects.toMatchObject({
      code: "MUSTER_ERR_BATCH_INCOMPLETE",
      params: { step, missing: 2, wanted: 3 },
    });
  });

  it("refuses a message of another kind", async () => {
    const seq = await store("mesh.built", { epoch: 1 });
    const read = readBatch(transport, { step, batch: [{ streamSeq: seq, groupIds: [idOf(0)] }] });
    await expect(read).rejects.toMatchObject({
      code: "MUSTER_ERR_BATCH_MALFORMED",
      params: { step, seq, reason: "kind mesh.built" },
    });
  });

  it("refuses a group whose arrays disagree, and says how", async () => {
    const seq = await storeGroups(group(step, 0, [trajectory({ lossMask: new Uint8Array(1) })]));
    const read = readBatch(transport, { step, batch: [{ streamSeq: seq, groupIds: [idOf(0)] }] });
    await expect(read).rejects.toMatchObject({ code: "MUSTER_ERR_BATCH_MALFORMED" });
    await expect(read).rejects.toThrow(/group 3\.0: loss mask of 1 for 2 response tokens/);
  });

  it("refuses bytes that are no message", async () => {
    const seq = await storeBytes(Uint8Array.of(193, 0, 255));
    const read = readBatch(transport, { step, batch: [{ streamSeq: seq, groupIds: [idOf(0)] }] });
    await expect(read).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_MALFORMED" });
  });

  it("fails when a message was purged", async () => {
    const gone = await storeGroups(groupOf(0));
    const kept = await storeGroups(groupOf(1));
    await transport.purge("groups", kept);
    const batch = [
      { streamSeq: gone, groupIds: [idOf(0)] },
      { streamSeq: kept, groupIds: [idOf(1)] },
    ];
    await expect(readBatch(transport, { step, batch })).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
  });
});
