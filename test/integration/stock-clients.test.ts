/** Programs with nothing but the NATS client libraries read a job with the credentials that are handed out, each in the way its library has. */
import { connectRaw, startTestServer, type TestServer } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { AckPolicy, type JetStreamManager, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const stream = "muster-test-events";
const bucket = "muster-test";
const kinds = ["job.started", "member.joined", "step.committed"];

/** The broker sends two MiB ahead of the first answer. */
const largeBytes = 512 * 1024;
const largeCount = 16;

let server: TestServer;
let controller: Transport;
beforeAll(async () => {
  server = await startTestServer();
  controller = await server.connect("controller.c0.a1");
  for (const kind of kinds) await say(kind, kind);
  await controller.state().put("status", bytes('{"phase":"sampling"}'));
});
afterAll(() => server.close());

const say = (kind: string, text: string) =>
  controller.publish(`muster.test.events.${kind}`, bytes(text), { msgId: `${kind} ${text}` });

type Connection = Awaited<ReturnType<typeof connectRaw>>;

describe.each(["watcher", "operator"] as const)("with the credentials of %s", (role) => {
  let connection: Connection;
  let manager: JetStreamManager;
  beforeEach(async () => {
    connection = await connectRaw(server, role, "shell");
    manager = await jetstreamManager(connection);
  });
  afterEach(() => connection.close());

  const rolePhrase = `events of ${role}`;
  /** Reads as many texts as there are kinds, and one that is said meanwhile. */
  const readAll = async (messages: AsyncIterable<{ string(): string; ack(): void }>): Promise<readonly string[]> => {
    const texts: string[] = [];
    for await (const message of messages) {
      texts.push(message.string());
      message.ack();
      if (texts.length === kinds.length) await say("step.retried", `${rolePhrase} ${Math.random()}`);
      if (texts.length > kinds.length) return texts.slice(0, kinds.length);
    }
    return texts;
  };

  test("an ordered consumer reads the events", async () => {
    const consumer = await jetstream(connection).consumers.get(stream, { filter_subjects: kindsOf(kinds) });
    const messages = await consumer.fetch({ max_messages: kinds.length, expires: 5_000 });
    const texts: string[] = [];
    for await (const message of messages) texts.push(message.string());
    expect(texts).toEqual(kinds);
  });

  test("an ordered consumer follows the events", async () => {
    const consumer = await jetstream(connection).consumers.get(stream);
    expect(await readAll(await consumer.consume())).toEqual(kinds);
  });

  test("a pull consumer, named by its reader and acknowledged, reads the events and is removed", async () => {
    const made = await manager.consumers.add(stream, { name: `${role}-mine`, ack_policy: AckPolicy.Explicit });
    const consumer = await jetstream(connection).consumers.get(stream, made.name);
    expect(await readAll(await consumer.consume())).toEqual(kinds);
    expect(await manager.consumers.delete(stream, made.name)).toBe(true);
    await expect(manager.consumers.info(stream, made.name)).rejects.toThrow(/not found/);
  });

  test("a push consumer delivers the events into the inbox of its reader", async () => {
    const deliver = `_INBOX_${role}.shell.pushed`;
    const made = await manager.consumers.add(stream, { deliver_subject: deliver, ack_policy: AckPolicy.None });
    const consumer = await jetstream(connection).consumers.getPushConsumer(stream, made.name);
    expect(await readAll(await consumer.consume())).toEqual(kinds);
  });

  test("an ordered push consumer follows the events", async () => {
    const consumer = await jetstream(connection).consumers.getPushConsumer(stream);
    expect(await readAll(await consumer.consume())).toEqual(kinds);
  });

  test("a push consumer with flow control goes on beyond what the broker sends ahead", async () => {
    const large = `muster.test.events.large.${role}`;
    for (let i = 0; i < largeCount; i++)
      await controller.publish(large, new Uint8Array(largeBytes), { msgId: `${large} ${i}` });
    const made = await manager.consumers.add(stream, {
      ...{ deliver_subject: `_INBOX_${role}.shell.large`, filter_subject: large, ack_policy: AckPolicy.None },
      ...{ flow_control: true, idle_heartbeat: nanos(5_000) },
    });
    const consumer = await jetstream(connection).consumers.getPushConsumer(stream, made.name);
    let heard = 0;
    for await (const _ of await consumer.consume()) {
      heard += 1;
      if (heard === largeCount) break;
    }
    expect(heard).toBe(largeCount);
  });

  test("a subscription hears events as they are said", async () => {
    const subscription = connection.subscribe("muster.test.events.>", { max: 1 });
    await connection.flush();
    await say("step.skipped", role);
    for await (const message of subscription) expect(message.string()).toBe(role);
  });

  test("the status is read and followed as an entry of a key-value bucket", async () => {
    const kv = await new Kvm(jetstream(connection)).open(bucket);
    expect((await kv.get("status"))?.string()).toMatch(/"phase"/);
    const seen: string[] = [];
    const watched = await kv.watch({ key: "status" });
    for await (const entry of watched) {
      seen.push(entry.string());
      if (seen.length === 1) await controller.state().put("status", bytes(`{"phase":"${role}"}`));
      if (seen.length === 2) break;
    }
    expect(seen[1]).toBe(`{"phase":"${role}"}`);
    expect(await keysOf(kv)).toContain("status");
    await expect(kv.put("status", "forged")).rejects.toThrow(/permissions violation/i);
  });
});

const nanos = (ms: number): number => ms * 1e6;
const kindsOf = (wanted: readonly string[]): string[] => wanted.map((kind) => `muster.test.events.${kind}`);

async function keysOf(kv: Awaited<ReturnType<Kvm["open"]>>): Promise<readonly string[]> {
  const keys: string[] = [];
  for await (const key of await kv.keys()) keys.push(key);
  return keys;
}
