import { rm } from "node:fs/promises";
import { join } from "node:path";
import { connectRaw, requestAs, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { type Delivery, prepareJob, type TailEntry, type Transport, type TransportStatus } from "@muster/transport";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textsOf = (items: readonly { readonly data: Uint8Array }[]): string[] =>
  items.map(({ data }) => new TextDecoder().decode(data));

describe("an outage of the broker", () => {
  let server: TestServer;
  let controller: Transport;
  let rollout: Transport;
  let statuses: TransportStatus["type"][];
  beforeEach(async () => {
    server = await startTestServer();
    controller = await server.connect("controller.c0.a1");
    rollout = await server.connect("rollout.r0.a1");
    statuses = [];
    rollout.onStatus(({ type }) => statuses.push(type));
  });
  afterEach(() => server.close());

  const became = (type: TransportStatus["type"]): Promise<unknown> =>
    waitFor(() => statuses.includes(type), { what: `status ${type}`, timeoutMs: 15_000, detail: () => statuses });
  const command = (text: string) =>
    controller.publish("muster.test.commands.r0.work.assign", bytes(text), { msgId: text, timeoutMs: 15_000 });
  const consume = async (onDelivery: (delivery: Delivery) => void = (delivery) => delivery.ack()) => {
    const got: Delivery[] = [];
    await rollout.consume({
      stream: "commands",
      consumer: "r0-a1",
      filter: "muster.test.commands.r0.>",
      deliver: "new",
      maxPending: 16,
      handle: (delivery) => {
        got.push(delivery);
        onDelivery(delivery);
      },
    });
    return got;
  };

  test("readers go on and nothing acknowledged is lost when the server is killed and started again", async () => {
    const commands = await consume();
    const events: TailEntry[] = [];
    const heartbeats: string[] = [];
    await controller.tail({ stream: "events", fromSeq: "new", handle: (entry) => events.push(entry) });
    await controller.subscribe("muster.test.hb.>", (subject) => heartbeats.push(subject));
    await command("1");
    await controller.publish("muster.test.events.step.done", bytes("e1"), { msgId: "e1" });
    await controller.journal().append(bytes("j1"), 0, "j1");
    const lease = await controller.state().update("lease", bytes("mine"), 0);
    await waitFor(() => commands.length === 1 && events.length === 1, { what: "first messages" });

    await server.server.kill();
    await became("disconnected");
    await server.server.restart();
    await became("reconnected");

    await command("2");
    await controller.publish("muster.test.events.step.done", bytes("e2"), { msgId: "e2" });
    expect(await controller.journal().append(bytes("j2"), 1, "j2")).toBe(2);
    expect(await controller.state().update("lease", bytes("mine"), lease)).toBeGreaterThan(lease);
    await waitFor(() => commands.length >= 2 && events.length >= 2, {
      what: "messages after the restart",
      timeoutMs: 15_000,
      detail: () => [textsOf(commands), textsOf(events)],
    });
    rollout.send("muster.test.hb.rollout.r0", bytes("alive"));
    await waitFor(() => heartbeats.length === 1, { what: "a heartbeat after the restart" });
    expect(textsOf(commands)).toEqual(["1", "2"]);
    expect(textsOf(events)).toEqual(["e1", "e2"]);
  });

  test("what is published during the outage is stored once when the server is back", async () => {
    await server.server.kill();
    await became("disconnected");
    const subject = "muster.test.groups.r0";
    const during = rollout.publish(subject, bytes("g"), { msgId: "g1", timeoutMs: 15_000 });
    const twice = rollout.publish(subject, bytes("g"), { msgId: "g1", timeoutMs: 15_000 });
    await server.server.restart();
    const acks = await Promise.all([during, twice]);
    expect(acks.map(({ seq }) => seq)).toEqual([1, 1]);
    expect(acks.filter(({ duplicate }) => duplicate)).toHaveLength(1);
  });

  test("an unknown outcome says so, and publishing again with the same id stores it once", async () => {
    const subject = "muster.test.groups.r0";
    await rollout.publish(subject, bytes("g"), { msgId: "g1" });
    await server.server.kill();
    await became("disconnected");
    const lost = rollout.publish(subject, bytes("g"), { msgId: "g1", timeoutMs: 200 });
    await expect(lost).rejects.toMatchObject({ code: "MUSTER_ERR_PUBLISH_UNKNOWN", retryable: true });
    await server.server.restart();
    const ack = await rollout.publish(subject, bytes("g"), { msgId: "g1", timeoutMs: 15_000 });
    expect(ack).toEqual({ seq: 1, duplicate: true });
  });

  test("a request in flight when the server dies is asked again and done once", async () => {
    process.kill(server.server.pid, "SIGSTOP");
    const appended = controller.journal().append(bytes("j"), 0, "j1");
    await server.server.kill();
    await server.server.restart();
    expect(await appended).toBe(1);
    expect(await controller.journal().head()).toBe(1);
  });

  test("a frozen server is noticed by pings, and what was asked meanwhile is done once when it thaws", async () => {
    process.kill(server.server.pid, "SIGSTOP");
    const published = rollout.publish("muster.test.groups.r0", bytes("g"), { msgId: "g1", timeoutMs: 30_000 });
    await became("disconnected");
    process.kill(server.server.pid, "SIGCONT");
    expect((await published).seq).toBe(1);
    const again = await rollout.publish("muster.test.groups.r0", bytes("g"), { msgId: "g1" });
    expect(again).toEqual({ seq: 1, duplicate: true });
  }, 40_000);

  test("a consumer that was removed is made again with what is not done", async () => {
    const commands = await consume((delivery) => {
      if (delivery.redeliveries === 0 && delivery.seq === 2 && commands.length === 2) return;
      delivery.ack();
    });
    await command("1");
    await command("2");
    await waitFor(() => commands.length === 2, { what: "two commands" });
    const raw = await connectRaw(server, "controller");
    const named = await raw.request("$JS.API.CONSUMER.NAMES.muster-test-commands", "{}", { timeout: 5_000 });
    const [name] = named.json<{ consumers: string[] }>().consumers;
    const subject = `$JS.API.CONSUMER.DELETE.muster-test-commands.${name}`;
    expect(await requestAs(server, { role: "rollout", subject })).toBe("refused");
    expect(await requestAs(server, { role: "controller", subject })).toBe("answered");
    await raw.close();
    await command("3");
    await waitFor(() => commands.length === 4, {
      what: "the rest",
      timeoutMs: 15_000,
      detail: () => textsOf(commands),
    });
    expect(textsOf(commands)).toEqual(["1", "2", "2", "3"]);
  });

  test("a replica that comes before any controller gets its orders as soon as there is one", async () => {
    await controller.close();
    const consuming = consume();
    const refusals = rollout.tail({ stream: "events", fromSeq: 1, handle: () => {} });
    await expect(refusals).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_PERMISSION" });
    controller = await server.connect("controller.c0.a2");
    const commands = await consuming;
    await command("1");
    await waitFor(() => commands.length === 1, { what: "the first order" });
  });

  test("readers find their streams again after the whole store was lost and the job prepared anew", async () => {
    const commands = await consume();
    for (const text of ["1", "2", "3"]) await command(text);
    await waitFor(() => commands.length === 3, { what: "commands before the loss" });
    await server.server.stop();
    await rm(join(server.directory, "store"), { recursive: true });
    await server.server.restart();
    const { url, job } = server;
    await prepareJob({ url, job, credentials: server.server.credentials.controller, connectTimeoutMs: 5_000 });
    await waitFor(
      async () => {
        await controller.publish("muster.test.commands.r0.work.assign", bytes("new"), { msgId: String(Math.random()) });
        return textsOf(commands).includes("new");
      },
      { what: "a command through the new store", timeoutMs: 20_000, detail: () => textsOf(commands) },
    );
  }, 40_000);

  test("of two writers of the journal exactly one wins each record", async () => {
    const rival = await server.connect("controller.c1.a1");
    const records = 40;
    const write = async (transport: Transport, name: string): Promise<number> => {
      let wins = 0;
      for (;;) {
        const head = await transport.journal().head();
        if (head >= records) return wins;
        const won = await transport
          .journal()
          .append(bytes(name), head, `${name}/${head}`)
          .catch((error: { readonly code?: string }) => {
            if (error.code === "MUSTER_ERR_FENCED") return 0;
            throw error;
          });
        if (won > 0) wins += 1;
      }
    };
    const wins = await Promise.all([write(controller, "a"), write(rival, "b")]);
    const written: string[] = [];
    for await (const { data } of controller.journal().read(1)) written.push(new TextDecoder().decode(data));
    expect(wins[0] + wins[1]).toBe(written.length);
    expect(written.filter((name) => name === "a")).toHaveLength(wins[0]);
  });
});

test("a server that was away for longer than it remembers ids takes the next record of who wrote the last one, and of nobody else", async () => {
  const server = await startTestServer({ prepare: false });
  try {
    const raw = await connectRaw(server, "controller");
    const stream = "muster-test-journal";
    // It remembers ids for a moment only; it is away for longer.
    const config = { name: stream, subjects: ["muster.test.journal"], storage: "file", duplicate_window: 100_000_000 };
    const made = await raw.request(`$JS.API.STREAM.CREATE.${stream}`, JSON.stringify(config));
    expect(made.json()).not.toHaveProperty("error");
    await raw.close();
    const journal = (await server.connect("controller.c0.a1")).journal();
    await journal.append(bytes("j1"), 0, "a1.1");
    await journal.append(bytes("j2"), 1, "a1.2", "a1.1");
    await server.server.restart();
    await expect(journal.append(bytes("zombie"), 2, "a0.3", "a0.2")).rejects.toMatchObject({
      ...{ code: "MUSTER_ERR_FENCED", params: { seq: 2 } },
    });
    expect(await journal.append(bytes("j3"), 2, "a1.3", "a1.2")).toBe(3);
  } finally {
    await server.close();
  }
});
