/** Programs with nothing but the NATS client libraries read a job with the credentials that are handed out, each in the way its library has. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  connectRaw,
  makeTempDirectory,
  startTestServer,
  type TempDirectory,
  type TestServer,
  waitFor,
} from "@muster/testkit";
import { credentialsOfReplica, type Transport } from "@muster/transport";
import { AckPolicy, type JetStreamManager, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect, credsAuthenticator } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const page = fileURLToPath(new URL("../../docs/operating/other-programs.md", import.meta.url));
const example = fileURLToPath(new URL("../../examples/reader/reader.mjs", import.meta.url));
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

describe("what the documentation shows", () => {
  let folder: TempDirectory;
  beforeAll(async () => {
    folder = await makeTempDirectory();
    for (const role of ["watcher", "operator"] as const) {
      const own = credentialsOfReplica(server.server.credentials[role], "shell");
      const text = JSON.stringify({ job: "test", url: server.url, credentials: { [role]: own } });
      writeFileSync(join(folder.path, `${role}.json`), text, { mode: 0o600 });
    }
  });
  afterAll(() => folder.remove());

  /** Runs the example until it has said so many lines. */
  const read = async (what: string, lines: number): Promise<readonly string[]> => {
    const child = spawn(process.execPath, [example, join(folder.path, "watcher.json"), what]);
    let said = "";
    child.stdout.on("data", (data: Buffer) => {
      said += data.toString();
    });
    child.stderr.on("data", (data: Buffer) => {
      said += data.toString();
    });
    const ended = once(child, "exit");
    await waitFor(() => said.split("\n").length > lines, {
      what: `${lines} lines`,
      timeoutMs: 15_000,
      detail: () => said,
    });
    child.kill();
    await ended;
    return said.split("\n").slice(0, lines);
  };

  test("the example reads the events", async () => {
    expect(await read("events", kinds.length)).toEqual(kinds);
  });

  test("the example reads the status", async () => {
    expect((await read("status", 1))[0]).toMatch(/"phase"/);
  });

  test("the credentials file opens the events and the commands of its operator", async (context) => {
    const script = /python3 - <<'END' > shell\.creds\n(.*?)\nEND\n/s.exec(readFileSync(page, "utf8"))?.[1] ?? "";
    const made = spawnSync("python3", ["-"], { input: script, cwd: folder.path });
    context.skip(made.error !== undefined, "there is no python3 here");
    expect(made.stderr.toString()).toBe("");
    const authenticator = credsAuthenticator(made.stdout);
    const connection = await connect({ servers: server.url, authenticator, inboxPrefix: "_INBOX_operator.shell" });
    const subscription = connection.subscribe("muster.test.events.>", { max: 1 });
    const body = '{"rollout": 2, "commandId": "scale-1"}';
    const stored = await connection.request("muster.test.reports.operator.shell.fleet.scale", body, { timeout: 5_000 });
    expect(stored.json()).toMatchObject({ stream: "muster-test-reports" });
    await say("step.skipped", "creds");
    for await (const message of subscription) expect(message.string()).toBe("creds");
    await connection.close();
  });
});

const nanos = (ms: number): number => ms * 1e6;
const kindsOf = (wanted: readonly string[]): string[] => wanted.map((kind) => `muster.test.events.${kind}`);

async function keysOf(kv: Awaited<ReturnType<Kvm["open"]>>): Promise<readonly string[]> {
  const keys: string[] = [];
  for await (const key of await kv.keys()) keys.push(key);
  return keys;
}
