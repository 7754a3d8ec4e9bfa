/** What a broker may lose that it had stored, and how its clients see that. */

import { beforeEach, describe, expect, test } from "vitest";
import type { Delivery, Transport } from "../src/index.ts";
import { createMemoryBroker, type MemoryBroker } from "../src/internal.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let nowMs = 0;
let timers: { readonly atMs: number; readonly run: () => void }[] = [];
let broker: MemoryBroker;
let transport: Transport;

async function advance(ms: number): Promise<void> {
  nowMs += ms;
  const due = timers.filter(({ atMs }) => atMs <= nowMs);
  timers = timers.filter((timer) => !due.includes(timer));
  for (const { run } of due) run();
  await settle();
}

beforeEach(() => {
  nowMs = 0;
  timers = [];
  const after = (delayMs: number, run: () => void) => {
    const timer = { atMs: nowMs + delayMs, run };
    timers.push(timer);
    return () => {
      timers = timers.filter((other) => other !== timer);
    };
  };
  broker = createMemoryBroker({ clock: { now: () => nowMs, after }, messageMax: { journal: 8 } });
  transport = broker.connect("controller");
});

/** Stores messages, a second apart. */
async function publish(subject: string, ...texts: readonly string[]): Promise<number[]> {
  const sequences: number[] = [];
  for (const text of texts) {
    sequences.push((await transport.publish(`muster.job.${subject}`, bytes(text), { msgId: text })).seq);
    await advance(1_000);
  }
  return sequences;
}

async function reading(stream: "commands" | "reports", filter: string): Promise<Delivery[]> {
  const seen: Delivery[] = [];
  const handle = (delivery: Delivery): void => void seen.push(delivery);
  const options = { stream, consumer: "me", filter: `muster.job.${filter}`, deliver: "all", maxPending: 16 } as const;
  await transport.consume({ ...options, handle });
  await settle();
  return seen;
}

const textOf = ({ data }: Delivery): string => new TextDecoder().decode(data);

describe("a broker that loses the end of a stream", () => {
  test("gives its sequences again, takes a lost message anew, and delivers nothing that is lost", async () => {
    await publish("commands.r0", "a", "b", "c");
    expect(broker.lose("commands", 2_500)).toBe(2);
    expect(broker.lose("groups", 2_500)).toBe(0);
    const seen = await reading("commands", "commands.r0");
    expect(await publish("commands.r0", "d", "b", "a")).toEqual([2, 3, 1]);
    expect(seen.map((each) => `${each.seq} ${textOf(each)}`)).toEqual(["1 a", "2 d", "3 b"]);
  });

  test("makes the next record of the journal fail by name", async () => {
    const journal = transport.journal();
    await journal.append(bytes("1"), 0, "1");
    await advance(1_000);
    await journal.append(bytes("2"), 1, "2");
    expect(broker.lose("journal", 500)).toBe(1);
    await expect(journal.append(bytes("3"), 2, "3")).rejects.toMatchObject({ code: "MUSTER_ERR_JOURNAL_CUT" });
  });

  test("has no value of a key whose newest one is lost", async () => {
    const state = transport.state();
    await state.put("old", bytes("1"));
    await advance(1_000);
    await state.put("new", bytes("1"));
    expect(broker.lose("state", 500)).toBe(1);
    expect([await state.get("new"), (await state.get("old"))?.revision]).toEqual([null, 1]);
  });
});

describe("a broker that forgets a consumer", () => {
  test("delivers again from the first message that its reader has not done, once that one has noticed", async () => {
    await publish("commands.r0", "a", "b", "c");
    const seen = await reading("commands", "commands.r0");
    seen[0]?.ack();
    seen[2]?.ack();
    broker.expireConsumers(10_000);
    await publish("commands.r0", "d");
    expect(seen).toHaveLength(3);
    seen[1]?.ack();
    await advance(9_000);
    expect(seen.slice(3).map(textOf)).toEqual(["d"]);
    broker.expireConsumers(10_000);
    await advance(10_000);
    expect(seen.slice(4).map(textOf)).toEqual(["d"]);
  });

  test("keeps reports that were answered too late, and hears no answer to an earlier delivery", async () => {
    await publish("reports.rollout.r0.weights.held", "a", "b");
    const seen = await reading("reports", "reports.>");
    seen[0]?.ack();
    broker.expireConsumers(10_000);
    seen[1]?.ack();
    await advance(10_000);
    expect(seen.map(textOf)).toEqual(["a", "b", "b"]);
    seen[2]?.ack();
    broker.expireConsumers(10_000);
    await advance(10_000);
    expect(seen).toHaveLength(3);
  });
});

test("a message larger than a stream takes is refused", async () => {
  await expect(transport.journal().append(bytes("123456789"), 0, "x")).rejects.toMatchObject({
    code: "MUSTER_ERR_BROKER_REFUSED",
  });
});
