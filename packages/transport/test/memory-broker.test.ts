import type { Clock } from "@muster/base";
import { beforeEach, describe, expect, test } from "vitest";
import type { Delivery, TransportStatus } from "../src/index.ts";
import { createMemoryBroker, type MemoryBroker } from "../src/internal.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = ({ data }: { readonly data: Uint8Array }): string => new TextDecoder().decode(data);
/** Lets everything that is ready run. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A clock that goes only when told to. */
class ManualClock implements Clock {
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly run: () => void }[] = [];
  now = (): number => this.#nowMs;
  after = (delayMs: number, run: () => void): (() => void) => {
    const timer = { atMs: this.#nowMs + delayMs, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };
  async advance(ms: number): Promise<void> {
    this.#nowMs += ms;
    const due = this.#timers.filter(({ atMs }) => atMs <= this.#nowMs).sort((a, b) => a.atMs - b.atMs);
    this.#timers = this.#timers.filter((timer) => !due.includes(timer));
    for (const { run } of due) run();
    await settle();
  }
}

let clock: ManualClock;
let broker: MemoryBroker;
beforeEach(() => {
  clock = new ManualClock();
  broker = createMemoryBroker({ clock });
});

describe("a cut connection", () => {
  test("is told to its listeners, with its return and its end", async () => {
    const transport = broker.connect("rollout.r0.a1");
    const seen: TransportStatus["type"][] = [];
    const stop = transport.onStatus(({ type }) => seen.push(type));
    broker.disconnect("rollout.r0.a1");
    broker.disconnect("rollout.r0.a1");
    expect(transport.isConnected()).toBe(false);
    broker.reconnect("rollout.r0.a1");
    await transport.close();
    broker.reconnect("rollout.r0.a1");
    stop();
    expect(seen).toEqual(["connected", "disconnected", "reconnected", "closed"]);
  });

  test("holds a publish until it is back", async () => {
    const transport = broker.connect("rollout.r0.a1");
    broker.disconnect("rollout.r0.a1");
    const publishing = transport.publish("muster.job.groups.r0", bytes("g"), { msgId: "g", timeoutMs: 1_000 });
    await clock.advance(900);
    broker.reconnect("rollout.r0.a1");
    expect(await publishing).toEqual({ seq: 1, duplicate: false });
  });

  test("lets a publish end with an unknown outcome at its deadline, and other calls with a timeout", async () => {
    const transport = broker.connect("rollout.r0.a1");
    broker.disconnect("rollout.r0.a1");
    const publishing = transport.publish("muster.job.groups.r0", bytes("g"), { msgId: "g", timeoutMs: 1_000 });
    const unknown = expect(publishing).rejects.toMatchObject({ code: "MUSTER_ERR_PUBLISH_UNKNOWN" });
    const timeout = expect(transport.fetch("groups", 1)).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_TIMEOUT" });
    await clock.advance(1_000);
    await unknown;
    await clock.advance(4_000);
    await timeout;
  });

  test("hears nothing of what is sent meanwhile, and sends nothing", async () => {
    const left = broker.connect("left");
    const right = broker.connect("right");
    const heard: string[] = [];
    await left.subscribe("muster.job.hb.>", (subject) => heard.push(subject));
    broker.disconnect("left");
    right.send("muster.job.hb.rollout.r0", bytes("x"));
    left.send("muster.job.hb.rollout.r1", bytes("x"));
    await settle();
    broker.reconnect("left");
    right.send("muster.job.hb.rollout.r2", bytes("x"));
    await settle();
    expect(heard).toEqual(["muster.job.hb.rollout.r2"]);
  });

  test("loses acknowledgements, so deliveries come again when it is back and the wait is over", async () => {
    const controller = broker.connect("controller.c0.a1");
    const rollout = broker.connect("rollout.r0.a1");
    const got: Delivery[] = [];
    await rollout.consume({
      stream: "commands",
      consumer: "r0-a1",
      filter: "muster.job.commands.r0.>",
      deliver: "new",
      maxPending: 4,
      ackWaitMs: 1_000,
      handle: (delivery) => got.push(delivery),
    });
    await controller.publish("muster.job.commands.r0.work.assign", bytes("1"), { msgId: "1" });
    await settle();
    broker.disconnect("rollout.r0.a1");
    got[0]?.ack();
    await clock.advance(2_000);
    expect(got).toHaveLength(1);
    broker.reconnect("rollout.r0.a1");
    await settle();
    got[1]?.ack();
    await clock.advance(2_000);
    expect(got.map(({ redeliveries }) => redeliveries)).toEqual([0, 1]);
  });

  test("shows a tail what it missed", async () => {
    const controller = broker.connect("controller.c0.a1");
    const watcher = broker.connect("watcher.w0.a1");
    const seen: string[] = [];
    await watcher.tail({ stream: "events", fromSeq: 1, handle: (entry) => seen.push(textOf(entry)) });
    broker.disconnect("watcher.w0.a1");
    await controller.publish("muster.job.events.step.done", bytes("1"), { msgId: "1" });
    await settle();
    expect(seen).toEqual([]);
    broker.reconnect("watcher.w0.a1");
    await settle();
    expect(seen).toEqual(["1"]);
  });
});

test("two readers of one durable consumer share its messages", async () => {
  const controller = broker.connect("controller.c0.a1");
  const read: string[][] = [[], []];
  for (const mine of read) {
    await controller.consume({
      stream: "reports",
      consumer: "controller",
      filter: "muster.job.reports.>",
      deliver: "all",
      maxPending: 16,
      handle: (delivery) => {
        mine.push(textOf(delivery));
        delivery.ack();
      },
    });
  }
  for (const text of ["1", "2", "3", "4"]) {
    await controller.publish("muster.job.reports.rollout.r0.group.finished", bytes(text), { msgId: text });
  }
  await settle();
  expect(read.flat().sort()).toEqual(["1", "2", "3", "4"]);
});

test("a message id is forgotten after two minutes", async () => {
  const transport = broker.connect("rollout.r0.a1");
  const publish = () => transport.publish("muster.job.groups.r0", bytes("g"), { msgId: "g" });
  await publish();
  await clock.advance(120_000);
  expect((await publish()).duplicate).toBe(true);
  await clock.advance(1);
  expect(await publish()).toEqual({ seq: 2, duplicate: false });
});

test("commands go after an hour, groups stay", async () => {
  const transport = broker.connect("controller.c0.a1");
  await transport.publish("muster.job.commands.r0.work.assign", bytes("c"), { msgId: "1" });
  await transport.publish("muster.job.groups.r0", bytes("g"), { msgId: "1" });
  await clock.advance(3_600_001);
  await transport.publish("muster.job.commands.r0.work.assign", bytes("c"), { msgId: "2" });
  await expect(transport.fetch("commands", 1)).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
  expect(textOf({ data: await transport.fetch("groups", 1) })).toBe("g");
});

test("at its bound a log of commands drops the oldest and the reports refuse the newest", async () => {
  const transport = broker.connect("controller.c0.a1");
  const mebibyte = new Uint8Array(1024 ** 2);
  for (let i = 1; i <= 65; i++) {
    await transport.publish("muster.job.commands.r0.work.assign", mebibyte, { msgId: String(i) });
  }
  await expect(transport.fetch("commands", 1)).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
  expect((await transport.fetch("commands", 2)).byteLength).toBe(mebibyte.byteLength);
  for (let i = 1; i <= 128; i++) {
    await transport.publish("muster.job.reports.rollout.r0.group.finished", mebibyte, { msgId: String(i) });
  }
  const refused = transport.publish("muster.job.reports.rollout.r0.group.finished", mebibyte, { msgId: "last" });
  await expect(refused).rejects.toMatchObject({ code: "MUSTER_ERR_STREAM_FULL" });
});

test("a subject outside every stream is refused", async () => {
  const publishing = broker.connect("rollout.r0.a1").publish("muster.job.elsewhere", bytes("x"), { msgId: "x" });
  await expect(publishing).rejects.toMatchObject({ code: "MUSTER_ERR_STREAM_MISSING" });
});
