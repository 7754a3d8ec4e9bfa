/** What is drawn of a long answer is stored as it comes: each time what is new, and the next holder has all of it. */
import { silentLogger } from "@muster/base";
import type { Chunk, RolloutEvent } from "@muster/machines";
import { type BegunGroup, createEnveloper, decodeMessage, encodeMessage, type WorkItem } from "@muster/protocol";
import type { OutboxItem } from "@muster/runtime";
import type { Transport } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import { beforeEach, describe, expect, it } from "vitest";
import { keeperOf, partsMax } from "../src/rollout/begun.ts";
import { readBegun } from "../src/rollout/read-begun.ts";
import { smallConfig } from "./support/small-config.ts";

const job = "job";
const item: WorkItem = { purpose: "train", step: 3, index: 0, attempt: 0 };
const chunk = { id: "c", leaseId: "1-1", lineage: 0, version: 2, items: [item] } as unknown as Chunk;

/** Two responses of so many tokens each, of which the first is whole at 50. */
const drawn = (length: number, shift = 0): BegunGroup => ({
  ...{ step: 3, index: 0 },
  responses: [Math.min(length, 50), length].map((tokens, at) => ({
    responseIds: Int32Array.from({ length: tokens }, (_, i) => i + at + shift),
    logprobs: Float32Array.from({ length: tokens }, (_, i) => -i / 8),
    finish: at === 0 && length >= 50 ? ("stop" as const) : null,
    segments: [{ version: 2, from: 0, to: tokens }],
  })),
});

describe("a long answer that is not finished", () => {
  let transport: Transport;
  let told: readonly WorkItem[] = [];
  let sizes: number[] = [];

  beforeEach(() => {
    transport = createMemoryBroker({ job }).connect("rollout.rollout-0.i1");
    told = [];
    sizes = [];
  });

  /** A keeper on a broker that takes everything; `settle` waits for that. */
  function keeper(messageBytes = 512 * 1024) {
    const whole = smallConfig("/nowhere");
    const config = { ...whole, limits: { ...whole.limits, messageBytes } };
    const waiting: Promise<void>[] = [];
    const offer = ({ subject, message, onStored }: OutboxItem): boolean => {
      const data = encodeMessage(message);
      sizes.push(data.length);
      waiting.push(transport.publish(subject, data, { msgId: message.id }).then((ack) => onStored?.(ack)));
      return true;
    };
    const enveloper = createEnveloper({ job, id: "rollout-0", role: "rollout", incarnation: "i1", wallMs: () => 0 });
    const tools = {
      outbox: { offer },
      enveloper,
      identity: { job, id: "rollout-0" },
      beats: { progress: () => {} },
      config,
    };
    const post = (event: RolloutEvent): boolean => {
      told = "items" in event ? event.items : [];
      return true;
    };
    const made = keeperOf(chunk, tools, { post, sent: () => {}, heldBack: () => {} });
    const settle = async (): Promise<void> => {
      for (let one = waiting.shift(); one; one = waiting.shift()) await one;
    };
    return { ...made, settle };
  }

  const read = async (): Promise<BegunGroup | undefined> => {
    const tools = { transport, logger: silentLogger, bodyBytesMax: 2 ** 24 };
    return (await readBegun({ items: told, lineage: 0 }, tools)).get(0);
  };

  it("is stored as what came since the last time, and read as a whole", async () => {
    const { save, settle } = keeper();
    for (const length of [20, 40, 5_000, 5_010]) {
      save([drawn(length)]);
      await settle();
    }
    expect(told).toEqual([{ ...item, partial: { streamSeq: 4, firstSeq: 1, tokens: 50 + 5_010 } }]);
    expect(sizes[3]).toBeLessThan(1_000);
    expect(sizes[2]).toBeGreaterThan(8 * 4_960);
    expect(await read()).toEqual(drawn(5_010));
  });

  it("is stored whole again after so many times, so that a reader reads no more than these", async () => {
    const { save, settle } = keeper();
    for (let times = 1; times <= partsMax + 1; times++) {
      save([drawn(times)]);
      await settle();
      expect(await read()).toEqual(drawn(times));
    }
    expect(told).toMatchObject([{ partial: { streamSeq: partsMax + 1, tokens: 2 * (partsMax + 1) } }]);
    expect(told[0]).not.toHaveProperty("partial.firstSeq");
  });

  it("is stored whole again where it was drawn anew and differs", async () => {
    const { save, settle } = keeper();
    save([drawn(30)]);
    await settle();
    save([drawn(40, 7)]);
    await settle();
    expect(told[0]).not.toHaveProperty("partial.firstSeq");
    expect(await read()).toEqual(drawn(40, 7));
  });

  it("has more turns each time where a module generates, and those that are whole are not stored again", async () => {
    const { save, handOver, settle } = keeper();
    const turned = (turns: number): BegunGroup => ({
      ...{ step: 3, index: 0 },
      responses: Array.from({ length: turns }, (_, at) => ({
        turn: { sample: at % 2, at: at >> 1, request: `q${at}` },
        responseIds: Int32Array.from({ length: 1_000 }, (_, i) => i + at),
        logprobs: new Float32Array(1_000).fill(-at),
        finish: at + 1 === turns ? null : ("stop" as const),
        segments: [{ version: 2, from: 0, to: 1_000 }],
      })),
    });
    save([turned(2)]);
    await settle();
    save([turned(3)]);
    await settle();
    expect(sizes[1]).toBeLessThan(10_000);
    expect(await read()).toEqual(turned(3));
    handOver([turned(5)]);
    await settle();
    expect(sizes[2]).toBeLessThan(18_000);
    expect(told).toEqual([{ ...item, partial: { streamSeq: 3, firstSeq: 1, tokens: 5_000 } }]);
    expect(await read()).toEqual(turned(5));
  });

  it("goes on from what was saved when it is handed over, in pieces where that is needed", async () => {
    const { save, handOver, settle } = keeper(500);
    save([drawn(100)]);
    await settle();
    handOver([drawn(400)]);
    await settle();
    expect(sizes.length).toBeGreaterThan(6);
    expect(Math.max(...sizes)).toBeLessThan(1_200);
    expect(told).toMatchObject([{ partial: { firstSeq: 1, tokens: 450 } }]);
    expect(await read()).toEqual(drawn(400));
  });

  it("is generated from its beginning when a part of it is gone", async () => {
    const { save, settle } = keeper();
    for (const length of [20, 40]) {
      save([drawn(length)]);
      await settle();
    }
    await transport.purge("groups", 2);
    expect(await read()).toBeUndefined();
    expect(decodeMessage(await transport.fetch("groups", 2)).kind).toBe("groups.begun");
  });
});
