/** What the credentials of one replica open on a real broker: its own places, and none of its sibling of the same role. */
import { connectRaw, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { type Credentials, connectNats, credentialsOfReplica, type Transport } from "@muster/transport";
import { afterAll, beforeAll, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const refused = { code: "MUSTER_ERR_BROKER_PERMISSION" };

let server: TestServer;
let controller: Transport;
let thief: Transport;
let credentials: Credentials;

const connectAs = (name: string): Promise<Transport> =>
  connectNats({ url: server.url, job: "test", credentials, name, connectTimeoutMs: 2_000 });

beforeAll(async () => {
  server = await startTestServer();
  controller = await server.connect("controller.c0.a1");
  credentials = credentialsOfReplica(server.server.credentials.rollout, "r0");
  thief = await connectAs("rollout.r0.a1");
});
afterAll(async () => {
  await thief.close();
  await server.close();
});

test("it speaks as itself, and its sibling's words are refused by the broker", async () => {
  const say = (subject: string) => thief.publish(`muster.test.${subject}`, bytes("x"), { msgId: subject });
  for (const own of ["reports.rollout.r0.replica.left", "groups.r0"])
    expect((await say(own)).seq, own).toBeGreaterThan(0);
  for (const other of ["reports.rollout.r1.replica.left", "groups.r1", "reports.policy.r0.step.voted"])
    await expect(say(other), other).rejects.toMatchObject(refused);
});

test("its heartbeat is heard, and one in its sibling's name is not", async () => {
  const heard: string[] = [];
  await controller.subscribe("muster.test.hb.>", (subject) => heard.push(subject));
  thief.send("muster.test.hb.rollout.r1", bytes("forged"));
  thief.send("muster.test.hb.rollout.r0", bytes("true"));
  await waitFor(() => heard.length > 0, { what: "a heartbeat" });
  expect(heard).toEqual(["muster.test.hb.rollout.r0"]);
});

test("it connects under no other id, and with the key of another replica's token nobody does", async () => {
  await expect(connectAs("rollout.r1.a1")).rejects.toMatchObject({ code: "MUSTER_ERR_CREDENTIALS_OTHER" });
  const forged = { ...credentials, seed: credentialsOfReplica(server.server.credentials.rollout, "r1").seed };
  const connecting = connectNats({
    url: server.url,
    job: "test",
    credentials: forged,
    name: "rollout.r0.a1",
    connectTimeoutMs: 2_000,
  });
  await expect(connecting).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_AUTH" });
});

test("it hears no answer of the broker to its sibling, and takes, acknowledges and removes none of its orders", async () => {
  const victim = await server.connect("rollout.r1.a1");
  const seen: number[] = [];
  await victim.consume({
    stream: "commands",
    consumer: "r1",
    filter: "muster.test.commands.r1.>",
    deliver: "all",
    maxPending: 8,
    ackWaitMs: 1_000,
    handle: ({ seq }) => seen.push(seq),
  });
  await expect(thief.subscribe("_INBOX_rollout.r1.>", () => {})).rejects.toMatchObject(refused);
  await expect(thief.subscribe("_INBOX_rollout.>", () => {})).rejects.toMatchObject(refused);
  const steal = thief.consume({
    stream: "commands",
    consumer: "r1",
    filter: "muster.test.commands.r1.>",
    deliver: "all",
    maxPending: 8,
    handle: () => {},
  });
  await expect(steal).rejects.toMatchObject({ params: { reason: expect.stringContaining("filter must be") } });
  const raw = await connectRaw(server, "rollout", "r0");
  const { consumers } = JSON.parse(
    (await (await connectRaw(server, "controller")).request("$JS.API.CONSUMER.NAMES.muster-test-commands")).string(),
  ) as { consumers: string[] };
  const [name] = consumers.filter((each) => each.startsWith("rollout-r1-"));
  const outcomeOf = (subject: string) =>
    raw.request(subject, "{}", { timeout: 500 }).then(
      () => "answered",
      (error: Error) => (/permissions violation/i.test(error.message) ? "refused" : "silent"),
    );
  expect(await outcomeOf(`$JS.API.CONSUMER.DELETE.muster-test-commands.${name}`)).toBe("refused");
  expect(await outcomeOf("$JS.API.CONSUMER.NAMES.muster-test-commands")).toBe("refused");
  expect(await outcomeOf("muster.test.desk.rollout.r1")).toBe("refused");
  // The secret half of its name is in nothing that the thief can read: what it guesses acknowledges nothing.
  const guessed = name?.replace(/[A-Za-z0-9_-]{22}$/, "A".repeat(22));
  const { seq } = await controller.publish("muster.test.commands.r1.replica.stop", bytes("o"), { msgId: "o" });
  for (let delivery = 1; delivery < 4; delivery++)
    raw.publish(`$JS.ACK.muster-test-commands.${guessed}.${delivery}.${seq}.${delivery}.0.0`, "+ACK");
  await waitFor(() => seen.filter((each) => each === seq).length >= 2, {
    what: "the order twice, since nobody acknowledged it",
    timeoutMs: 10_000,
  });
  await raw.close();
});
