import { readdir, readFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  findNatsServer,
  makeTempDirectory,
  requestAs,
  spawnActor,
  startTestServer,
  type TestServer,
  waitFor,
} from "@muster/testkit";
import {
  brokerRoles,
  type Credentials,
  connectNats,
  credentialsOfReplica,
  prepareJob,
  type Transport,
  type TransportStatus,
  watchDisconnects,
} from "@muster/transport";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const refused = { code: "MUSTER_ERR_BROKER_PERMISSION" };
const connectTimeoutMs = 2_000;

describe("the broker's access rules", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
  });
  afterAll(() => server.close());

  test.each([
    ["a key of another server", (other: Credentials) => other.seed],
    ["no key", () => "not-the-seed-of-any-key"],
  ])("%s is refused at once, naming the user and not the key", async (_, seedOf) => {
    const credentials = { ...server.server.credentials.rollout, seed: seedOf(server.server.credentials.policy) };
    const error = await connectNats({
      url: server.url,
      job: "test",
      credentials,
      name: "rollout.r0.a1",
      connectTimeoutMs,
    }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "MUSTER_ERR_BROKER_AUTH", params: { user: "rollout" } });
    expect(String(error)).not.toContain(credentials.seed);
  });

  test("a server that is not there is reported with its address and what to do", async () => {
    const credentials = server.server.credentials.rollout;
    const url = "nats://127.0.0.1:1";
    await expect(
      connectNats({ url, job: "test", credentials, name: "rollout.r0.a1", connectTimeoutMs: 300 }),
    ).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_UNREACHABLE", retryable: true, params: { url } });
  });

  test("a broker that takes anonymous connections is refused before anything is created on it", async () => {
    const directory = await makeTempDirectory();
    const open = await spawnActor({
      command: findNatsServer(),
      args: ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", directory.path, "--ports_file_dir", directory.path],
    });
    try {
      const file = await waitFor(async () => (await readdir(directory.path)).find((name) => name.endsWith(".ports")), {
        what: "the address of the open server",
      });
      const url = await waitFor(
        async () => (JSON.parse(await readFile(join(directory.path, file), "utf8")) as { nats: string[] }).nats[0],
        { what: "the address of the open server" },
      );
      const credentials = server.server.credentials.controller;
      await expect(prepareJob({ url, job: "test", credentials, connectTimeoutMs })).rejects.toMatchObject({
        code: "MUSTER_ERR_BROKER_OPEN",
      });
    } finally {
      await open.kill();
      expect(open.hasLeftover()).toBe(false);
      await directory.remove();
    }
  });

  test("preparing a job again is harmless", async () => {
    const { url, job } = server;
    await prepareJob({ url, job, credentials: server.server.credentials.controller, connectTimeoutMs });
  });

  test("a stream that differs from what this version needs is refused, naming the setting", async () => {
    const other = await startTestServer({ prepare: false });
    try {
      const subject = "$JS.API.STREAM.CREATE.muster-test-journal";
      const body = { name: "muster-test-journal", subjects: ["muster.test.journal"], discard: "old", storage: "file" };
      expect(await requestAs(other, { role: "controller", subject, body })).toBe("answered");
      const credentials = other.server.credentials.controller;
      const preparing = prepareJob({ url: other.url, job: "test", credentials, connectTimeoutMs });
      await expect(preparing).rejects.toMatchObject({
        code: "MUSTER_ERR_STREAM_MISMATCH",
        params: { stream: "muster-test-journal", field: "discard", found: '"old"', wanted: '"new"' },
      });
    } finally {
      await other.close();
    }
  });

  test("streams that an operator gave more room are taken as they are, and of those with less only the groups", async () => {
    const other = await startTestServer({ bytesMax: { groups: 1024 ** 2, journal: 1024 ** 2, events: 3 * 1024 ** 3 } });
    try {
      const credentials = other.server.credentials.controller;
      const job = { url: other.url, job: "test", credentials, connectTimeoutMs };
      await prepareJob({ ...job, bytesMax: { journal: 1024 ** 2 } });
      await expect(prepareJob(job)).rejects.toMatchObject({
        code: "MUSTER_ERR_STREAM_MISMATCH",
        params: { stream: "muster-test-journal", field: "max_bytes", found: "1048576", wanted: "1073741824" },
      });
    } finally {
      await other.close();
    }
  });

  test.each([
    { title: "is too old", info: { version: "2.10.27" }, refusal: "TOO_OLD", params: { version: "2.10.27" } },
    {
      title: "takes smaller messages than Muster sends",
      info: { version: "2.11.0", max_payload: 1_048_576 },
      refusal: "PAYLOAD",
      params: { found: 1_048_576, wanted: 1_064_960 },
    },
  ])("a server that $title is refused, with what it has and what is needed", async ({ info, refusal, params }) => {
    const other = createServer((socket) => {
      socket.write(`INFO ${JSON.stringify({ server_id: "x", max_payload: 2_000_000, headers: true, ...info })}\r\n`);
      socket.on("data", (data) => String(data).includes("PING") && socket.write("PONG\r\n"));
      socket.on("error", () => socket.destroy());
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const url = `nats://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const credentials = server.server.credentials.rollout;
    await expect(
      connectNats({ url, job: "test", credentials, name: "rollout.r0.a1", connectTimeoutMs }),
    ).rejects.toMatchObject({ code: `MUSTER_ERR_BROKER_${refusal}`, params });
    other.close();
  });

  test("a rollout may not command, write the journal or the state, publish events, or speak as another role", async () => {
    const rollout = await server.connect("rollout.r1.a1");
    const publish = (subject: string) => rollout.publish(subject, bytes("x"), { msgId: subject });
    await expect(publish("muster.test.commands.r0.work.assign")).rejects.toMatchObject(refused);
    await expect(publish("muster.test.events.step.done")).rejects.toMatchObject(refused);
    await expect(publish("muster.test.reports.policy.p0.mesh.built")).rejects.toMatchObject(refused);
    await expect(publish("muster.test.reports.rollout.r1.mesh.built")).rejects.toMatchObject(refused);
    await expect(publish("muster.test.reports.rollout.r1.anything")).rejects.toMatchObject(refused);
    await expect(rollout.journal().append(bytes("x"), 0, "x")).rejects.toMatchObject(refused);
    await expect(rollout.state().put("lease", bytes("x"))).rejects.toMatchObject(refused);
    await expect(rollout.purge("groups", 10)).rejects.toMatchObject(refused);
    await expect(rollout.subscribe("muster.>", () => {})).rejects.toMatchObject(refused);
    await expect(rollout.tail({ stream: "journal", fromSeq: 1, handle: () => {} })).rejects.toMatchObject(refused);
    const own = await publish("muster.test.reports.rollout.r1.replica.left");
    expect(own.seq).toBeGreaterThan(0);
  });

  test("a forged heartbeat is not delivered and is reported to its sender", async () => {
    const controller = await server.connect("controller.c0.a1");
    const rollout = await server.connect("rollout.r2.a1");
    const heard: string[] = [];
    const faults: TransportStatus[] = [];
    await controller.subscribe("muster.test.hb.>", (subject) => heard.push(subject));
    rollout.onStatus((status) => status.type === "error" && faults.push(status));
    rollout.send("muster.test.hb.policy.p0", bytes("forged"));
    rollout.send("muster.test.hb.rollout.r2", bytes("true"));
    await waitFor(() => heard.length > 0 && faults.length > 0, { what: "a heartbeat and a fault" });
    expect(heard).toEqual(["muster.test.hb.rollout.r2"]);
    expect(faults).toMatchObject([{ error: { ...refused, params: { subject: "muster.test.hb.policy.p0" } } }]);
  });

  test("an operator reads events and state and reports, and a watcher only looks", async () => {
    const controller = await server.connect("controller.c0.a2");
    await controller.state().put("directory", bytes("d"));
    await controller.publish("muster.test.events.step.done", bytes("e"), { msgId: "event-1" });
    const operator = await server.connect("operator.o0.a1");
    const watcher = await server.connect("watcher.w0.a1");
    const follow = async (transport: Transport): Promise<unknown> => {
      const seen: string[] = [];
      await transport.tail({ stream: "events", fromSeq: 1, handle: ({ subject }) => seen.push(subject) });
      return waitFor(() => seen.includes("muster.test.events.step.done"), { what: "an event" });
    };
    await Promise.all([follow(operator), follow(watcher)]);
    expect(await operator.state().get("directory")).not.toBeNull();
    await operator.publish("muster.test.reports.operator.o0.job.stop", bytes("x"), { msgId: "stop" });
    await expect(operator.state().put("directory", bytes("x"))).rejects.toMatchObject(refused);
    const report = watcher.publish("muster.test.reports.operator.w0.job.stop", bytes("x"), { msgId: "stop" });
    await expect(report).rejects.toMatchObject(refused);
    expect((await watcher.state().get("directory"))?.value).toEqual(bytes("d"));
    await expect(watcher.state().put("directory", bytes("forged"))).rejects.toMatchObject(refused);
  });

  test("only the controller can remove records of the journal, and the next one still follows the last", async () => {
    const controller = await server.connect("controller.c0.a4");
    const journal = controller.journal();
    const head = await journal.head();
    await journal.append(bytes("covered"), head, "covered");
    await journal.append(bytes("snapshot"), head + 1, "snapshot");
    const subject = "$JS.API.STREAM.PURGE.muster-test-journal";
    for (const role of ["policy", "rollout", "checkpoint", "node", "operator", "watcher", "script"] as const)
      expect(await requestAs(server, { role, subject }), role).toBe("refused");
    await controller.purge("journal", head + 2);
    const left: number[] = [];
    for await (const { seq } of journal.read(1)) left.push(seq);
    expect(left).toEqual([head + 2]);
    const stale = journal.append(bytes("stale"), head, "stale");
    await expect(stale).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
    expect(await journal.append(bytes("next"), head + 2, "next")).toBe(head + 3);
  });

  test("nobody can delete or reshape a stream, not even the controller", async () => {
    for (const role of brokerRoles) {
      for (const stream of ["muster-test-journal", "KV_muster-test"]) {
        expect(await requestAs(server, { role, subject: `$JS.API.STREAM.DELETE.${stream}` }), role).toBe("refused");
        expect(await requestAs(server, { role, subject: `$JS.API.STREAM.UPDATE.${stream}` }), role).toBe("refused");
      }
    }
    expect(await requestAs(server, { role: "controller", subject: "$JS.API.STREAM.INFO.muster-test-journal" })).toBe(
      "answered",
    );
  });

  test("a killed client is announced with its name, unless that is of another role or id than its user", async () => {
    const notices: string[] = [];
    const watching = await watchDisconnects({
      url: server.url,
      credentials: server.server.credentials.system,
      connectTimeoutMs,
      users: server.server.credentials,
      handle: ({ name }) => notices.push(name),
    });
    /** A client that names itself after an actor, and is killed. */
    const dieAs = async (role: "rollout" | "watcher", id: string, name: string): Promise<void> => {
      const { seed, replica } = credentialsOfReplica(server.server.credentials[role], id);
      const script = `
        import { connect, jwtAuthenticator } from "@nats-io/transport-node";
        const authenticator = jwtAuthenticator("${replica?.token}", new TextEncoder().encode("${seed}"));
        await connect({ servers: "${server.url}", name: "${name}", authenticator });
        console.log("connected");
        setInterval(() => {}, 1_000);`;
      const client = await spawnActor({
        command: process.execPath,
        args: ["--input-type=module", "-e", script],
        cwd: fileURLToPath(new URL("../../packages/testkit/", import.meta.url)),
      });
      await client.waitForLine("connected");
      await client.kill();
    };
    await dieAs("watcher", "r8", "rollout.r8.a1");
    await dieAs("rollout", "r7", "rollout.r8.a1");
    await dieAs("rollout", "r9", "rollout.r9.a1");
    await waitFor(() => notices.includes("rollout.r9.a1"), { what: "the notice", detail: () => notices });
    expect(notices).toEqual(["rollout.r9.a1"]);
    await watching.close();
  });

  test("the credentials of a role do not open the system's announcements", async () => {
    const credentials = server.server.credentials.controller;
    const watching = watchDisconnects({
      url: server.url,
      credentials,
      connectTimeoutMs,
      users: server.server.credentials,
      handle: () => {},
    });
    await expect(watching).rejects.toMatchObject(refused);
  });
});
