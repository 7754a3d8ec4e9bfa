/** What is larger than a message is stored in pieces, and read as it was; whatever is wrong with the pieces is found. */
import { createHash } from "node:crypto";
import {
  type Body,
  createEnveloper,
  encodeMessage,
  fromGroupsBatch,
  type Kind,
  type PiecedBody,
  pack,
  payloadBytesMax,
  type StreamPlace,
  subjectsOf,
  toGroupsBatch,
} from "@muster/protocol";
import { groupsMessageBytesMax } from "@muster/protocol/internal";
import type { OutboxItem } from "@muster/runtime";
import type { Transport } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { fetchBody } from "../src/groups/fetch.ts";
import { storeBody } from "../src/groups/store.ts";
import { group, trajectory } from "./support/groups.ts";

const job = "job";
const identity = { job, id: "rollout-0" };
const bodyOf = (length: number, groups = 1): PiecedBody => ({
  kind: "groups.batch",
  body: toGroupsBatch(Array.from({ length: groups }, (_, index) => group(3, index, [trajectory({ length })]))),
});

/** The groups of a body. */
const groupsIn = ({ kind, body }: PiecedBody) => (kind === "groups.batch" ? fromGroupsBatch(body) : []);

/** An outbox that stores at once; each message in the order in which it was offered. */
class PromptOutbox {
  readonly sizes: number[] = [];
  readonly waiting: Promise<void>[] = [];
  isOpen = true;
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  offer({ subject, message, onStored }: OutboxItem): boolean {
    if (!this.isOpen) return false;
    const data = encodeMessage(message);
    this.sizes.push(data.length);
    this.waiting.push(this.#transport.publish(subject, data, { msgId: message.id }).then((ack) => onStored?.(ack)));
    return true;
  }
}

describe("a body in the groups stream", () => {
  let transport: Transport;
  let outbox: PromptOutbox;
  const enveloper = createEnveloper({ ...identity, role: "rollout", incarnation: "i1", wallMs: () => 0 });

  beforeEach(() => {
    transport = createMemoryBroker({ job }).connect("rollout.rollout-0.i1");
    outbox = new PromptOutbox(transport);
  });

  async function store(body: PiecedBody, messageBytes: number): Promise<StreamPlace> {
    let place: StreamPlace | undefined;
    const tools = { outbox, enveloper, identity, messageBytes };
    expect(storeBody(tools, body, { onStored: (at) => (place = at) })).toBe(true);
    for (let told = outbox.waiting.shift(); told; told = outbox.waiting.shift()) await told;
    expect(place).toBeDefined();
    return place as StreamPlace;
  }
  const publish = async <K extends Kind>(kind: K, body: Body<K>): Promise<number> => {
    const message = enveloper.stamp(kind, body);
    const subject = subjectsOf(job).groups(identity.id);
    return (await transport.publish(subject, encodeMessage(message), { msgId: message.id })).seq;
  };

  it("is one message where it fits", async () => {
    const body = bodyOf(100);
    const place = await store(body, 4_096);
    expect(place).toEqual({ streamSeq: 1 });
    expect(groupsIn(await fetchBody(transport, 1, 4_096))).toEqual(groupsIn(body));
  });

  it("is in pieces where it does not fit, and those and what names them take what a message may take at most", async () => {
    const body = bodyOf(60_000);
    const place = await store(body, groupsMessageBytesMax / 8);
    expect(place).toEqual({ streamSeq: 6, firstSeq: 1 });
    expect(Math.max(...outbox.sizes)).toBeLessThan(payloadBytesMax / 4);
    expect(groupsIn(await fetchBody(transport, 6, 2 ** 24))).toEqual(groupsIn(body));
  });

  it("has the same bytes however it was cut", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 20, max: 900 }), async (length, bytes) => {
        const body = bodyOf(length, 2);
        const { streamSeq } = await store(body, bytes);
        expect(groupsIn(await fetchBody(transport, streamSeq, 2 ** 20))).toEqual(groupsIn(body));
      }),
    );
  });

  it("is not there while a piece is missing: nothing is told when the outbox closes in between", async () => {
    let told = 0;
    const tools = { outbox, enveloper, identity, messageBytes: 100 };
    storeBody(tools, bodyOf(100), { onStored: () => (told += 1) });
    await outbox.waiting.shift();
    outbox.isOpen = false;
    for (let one = outbox.waiting.shift(); one; one = outbox.waiting.shift()) await one;
    expect(told).toBe(0);
    expect(storeBody(tools, bodyOf(100), { onStored: () => (told += 1) })).toBe(false);
  });

  it("with a piece that is gone is gone", async () => {
    const { streamSeq } = await store(bodyOf(300), 400);
    await transport.purge("groups", 2);
    await expect(fetchBody(transport, streamSeq, 2 ** 20)).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
  });

  it.each<[string, RegExp, () => Promise<number>]>([
    ["a kind without groups", /kind mesh\.built/, () => publish("mesh.built", { epoch: 1 })],
    [
      "the name of what is no piece",
      /message 1 is mesh\.built and no piece/,
      async () => joined({ pieces: [await publish("mesh.built", { epoch: 1 })], bytes: 3 }),
    ],
    [
      "more bytes than it says",
      /more than 3 bytes/,
      async () => joined({ pieces: [await publish("groups.piece", { bytes: new Uint8Array(4) })], bytes: 3 }),
    ],
    [
      "other bytes than it says",
      /not what it says/,
      async () => joined({ pieces: [await publish("groups.piece", { bytes: new Uint8Array(3) })], bytes: 3 }),
    ],
    [
      "fewer bytes than it says",
      /not what it says/,
      async () => joined({ pieces: [await publish("groups.piece", { bytes: new Uint8Array(2) })], bytes: 3 }),
    ],
    ["more than any body of the job", /groups of this job have 1048576/, () => joined({ pieces: [1], bytes: 2 ** 21 })],
    [
      "what is no body",
      /groups\.batch/,
      async () => {
        const bytes = Uint8Array.from(pack({ groups: [] }));
        const digest = createHash("sha256").update(bytes).digest("hex");
        return joined({ pieces: [await publish("groups.piece", { bytes })], bytes: bytes.length, digest });
      },
    ],
  ])("that is %s is refused", async (_, reason, make) => {
    await expect(fetchBody(transport, await make(), 2 ** 20)).rejects.toThrow(reason);
  });

  const joined = (patch: Partial<Body<"groups.joined">> & Pick<Body<"groups.joined">, "pieces" | "bytes">) =>
    publish("groups.joined", { kind: "groups.batch", digest: "0".repeat(64), ...patch });
});
