import {
  type Body,
  createEnveloper,
  encodeMessage,
  groupIdOf,
  type Kind,
  subjectsOf,
  type TrajectoryGroup,
  toGroupsBatch,
  toGroupsBegun,
  wholePart,
} from "@muster/protocol";
import { createMemoryBroker } from "@muster/transport/internal";
import { beforeEach, describe, expect, it } from "vitest";
import { readBatch } from "../src/policy/read-batch.ts";
import { group, trajectory } from "./support/groups.ts";
import { smallConfig } from "./support/small-config.ts";

const job = "job";
const step = 3;
const groupOf = (index: number, reward = 0): TrajectoryGroup => group(step, index, [trajectory({ reward })]);
const config = { ...smallConfig("/nowhere"), model: { vocab: 64, maxContext: 64 } };
const begun = {
  responseIds: Int32Array.of(7),
  logprobs: Float32Array.of(-1),
  finish: null,
  segments: [{ version: 0, from: 0, to: 1 }],
};
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
    expect(await readBatch(transport, { step, batch }, config)).toEqual({
      groups: [groupOf(2, 0.5), groupOf(0), groupOf(1, 1)],
      unreadable: [],
      cause: "",
    });
  });

  it("leaves out the groups of a message that the batch does not name", async () => {
    const seq = await storeGroups(groupOf(0), groupOf(1), group(step + 1, 1, [trajectory()]));
    const { groups } = await readBatch(transport, { step, batch: [{ streamSeq: seq, groupIds: [idOf(1)] }] }, config);
    expect(groups).toEqual([groupOf(1)]);
  });

  const reading = (seq: number, groupIds = [idOf(0)]) =>
    readBatch(transport, { step, batch: [{ streamSeq: seq, groupIds }] }, config);

  it.each<[string, RegExp, () => Promise<number>]>([
    ["lacks a named group", /step 3: the stored batch lacks 1 of 1 groups/, () => storeGroups(groupOf(5))],
    ["has a group twice", /one group more than once/, () => storeGroups(groupOf(0), groupOf(0))],
    [
      "is of another kind",
      /^message 1 of the groups stream can not be read: kind mesh\.built$/,
      () => store("mesh.built", { epoch: 1 }),
    ],
    [
      "has what was begun",
      /^step 3: message 1 .* is not a batch: kind groups\.begun$/,
      () => store("groups.begun", toGroupsBegun(0, [wholePart({ step, index: 0, responses: [begun] })])),
    ],
    [
      "has a group whose arrays disagree",
      /group 3\.0: loss mask of 1 for 2 response tokens/,
      () => storeGroups(group(step, 0, [trajectory({ lossMask: new Uint8Array(1) })])),
    ],
    ...(
      [
        ["a token of -5", { tokens: Int32Array.of(7, 7, -5) }, /group 3\.0: token -5, and the vocabulary has 64/],
        ["a token beyond the vocabulary", { tokens: Int32Array.of(7, 64, 7) }, /token 64/],
        ["more tokens than the context", { length: 64 }, /65 tokens, and the context has 64/],
        ["a log-probability of NaN", { logprobs: Float32Array.of(-1, Number.NaN) }, /not finite/],
        ["a reward of 1e308", { reward: 1e308 }, /reward 1e\+308 is not between/],
      ] as const
    ).map(([what, lie, cause]): [string, RegExp, () => Promise<number>] => [
      `has ${what}`,
      cause,
      () => storeGroups(group(step, 0, [trajectory(lie)])),
    ]),
    ["is no message at all", /message 1 of the groups stream: malformed/, () => storeBytes(Uint8Array.of(193, 0, 255))],
  ])("names what can not be read because its message %s, and says why", async (_, cause, stored) => {
    const seq = await stored();
    const read = await reading(seq);
    expect(read).toMatchObject({ groups: [], unreadable: [{ streamSeq: seq, groupIds: [idOf(0)] }] });
    expect(read.cause).toMatch(cause);
  });

  it("names what was purged, and gives the rest", async () => {
    const gone = await storeGroups(groupOf(0));
    const kept = await storeGroups(groupOf(1));
    await transport.purge("groups", kept);
    const batch = [
      { streamSeq: gone, groupIds: [idOf(0)] },
      { streamSeq: kept, groupIds: [idOf(1)] },
    ];
    const read = await readBatch(transport, { step, batch }, config);
    expect(read).toMatchObject({ groups: [{ groupId: idOf(1) }], unreadable: [batch[0]] });
  });

  it("names no more parts than a vote may have", async () => {
    const seqs = await Promise.all(Array.from({ length: 80 }, (_, i) => storeBytes(Uint8Array.of(i))));
    const batch = seqs.map((streamSeq, i) => ({ streamSeq, groupIds: [idOf(i)] }));
    expect((await readBatch(transport, { step, batch }, config)).unreadable).toHaveLength(64);
  });

  it("fails when the broker does not answer: that says nothing of the batch", async () => {
    const seq = await storeGroups(groupOf(0));
    await transport.close();
    await expect(reading(seq)).rejects.toMatchObject({ code: "MUSTER_ERR_TRANSPORT_CLOSED" });
  });
});
