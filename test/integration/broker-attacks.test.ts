/** What one role's credentials can spoil on a real broker: every request it may make, with every place as the reply of it. */
import { connectRaw, rawHeaders, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { type BrokerRole, brokerRoles, type Transport } from "@muster/transport";
import { permissionsOf } from "@muster/transport/internal";
import { afterAll, beforeAll, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const attackers = brokerRoles.filter((role) => role !== "controller");
const streams = [
  ...["reports", "commands", "journal", "groups", "events"].map((name) => `muster-test-${name}`),
  "KV_muster-test",
];

let server: TestServer;
let controller: Transport;
let raw: NatsConnection;
beforeAll(async () => {
  server = await startTestServer();
  controller = await server.connect("controller.c0.a1");
  raw = await connectRaw(server, "controller");
  await controller.state().put("directory", bytes("d"));
  await (await server.connect("rollout.r0.a1")).publish("muster.test.groups.r0", bytes("g"), { msgId: "g" });
});
afterAll(async () => {
  await raw.close();
  await server.close();
});

type NatsConnection = Awaited<ReturnType<typeof connectRaw>>;

async function ask<T>(connection: NatsConnection, subject: string, body: object): Promise<T> {
  return (await connection.request(subject, JSON.stringify(body), { timeout: 5_000 })).json<T>();
}

interface StreamInfo {
  readonly config: { readonly name: string };
  readonly state: {
    readonly last_seq: number;
    readonly messages: number;
    readonly subjects?: Record<string, number>;
  };
}

/** What no attack may change: the shape of every stream, its consumers, what the controller alone writes, who wrote what. */
async function brokerState(attacker: BrokerRole | null) {
  const found = [];
  for (const name of streams) {
    const info = await ask<StreamInfo>(raw, `$JS.API.STREAM.INFO.${name}`, { subjects_filter: ">" });
    const { last_seq, messages, subjects = {} } = info.state;
    const { consumers } = await ask<{ consumers: string[] }>(raw, `$JS.API.CONSUMER.NAMES.${name}`, {});
    const own = (subject: string): boolean =>
      subject.startsWith(`muster.test.reports.${speakerOf(attacker)}.${attacker}-attacker.`) ||
      subject === "muster.test.groups.rollout-attacker";
    const others = Object.entries(subjects).filter(([subject]) => !own(subject));
    const isShared = /-(reports|groups)$/.test(name);
    found.push({
      config: info.config,
      others,
      consumers: consumers.sort(),
      ...(isShared ? {} : { last_seq, messages }),
    });
  }
  return found;
}

/** In the name of which role one reports. */
const speakerOf = (role: BrokerRole | null) => (role === "script" ? "operator" : role);

/** Streams that are the controller's to write. */
async function advance(name: string): Promise<void> {
  const journal = controller.journal();
  const head = await journal.head();
  expect(await journal.append(bytes(name), head, `${name}.${head}`)).toBe(head + 1);
  await controller.publish("muster.test.commands.p0.work.assign", bytes(name), { msgId: name });
  await controller.publish("muster.test.events.step.done", bytes(name), { msgId: name });
}

const verbs = [
  ..."CREATE UPDATE DELETE PURGE INFO SNAPSHOT RESTORE MSG.GET MSG.DELETE LEADER.STEPDOWN PEER.REMOVE"
    .split(" ")
    .map((verb) => `$JS.API.STREAM.${verb}.S`),
  ..."CREATE.S CREATE.S.thief CREATE.S.thief.> DURABLE.CREATE.S.thief DELETE.S.victim INFO.S.victim LIST.S NAMES.S"
    .split(" ")
    .map((verb) => `$JS.API.CONSUMER.${verb}`),
  ..."PAUSE.S.victim RESET.S.victim UNPIN.S.victim LEADER.STEPDOWN.S.victim MSG.NEXT.S.victim MSG.NEXT.S.controller"
    .split(" ")
    .map((verb) => `$JS.API.CONSUMER.${verb}`),
  ..."DIRECT.GET.S DIRECT.GET.S.x".split(" ").map((verb) => `$JS.API.${verb}`),
  ..."INFO STREAM.LIST STREAM.NAMES ACCOUNT.PURGE.JOB META.LEADER.STEPDOWN SERVER.REMOVE"
    .split(" ")
    .map((verb) => `$JS.API.${verb}`),
  ..."$JS.ACK.S.victim.1.1.1.1.0 $JS.ACK.S.controller.1.1.1.1.0 $JS.FC.S.victim.x $SYS.REQ.SERVER.PING".split(" "),
];

/** Every place of the job, and what a request on the broker's own subjects would do. */
const places = [
  "muster.test.journal",
  ...["policy", "rollout", "checkpoint", "node", "operator"].flatMap((role) => [
    `muster.test.reports.${role}.victim.replica.left`,
    `muster.test.hb.${role}.victim`,
    `muster.test.desk.${role}.victim`,
    `_INBOX_${role}.victim.x`,
  ]),
  "muster.test.commands.victim.replica.stop",
  "muster.test.groups.victim",
  "muster.test.events.job.ended",
  "muster.test.probe.victim",
  "$KV.muster-test.lease",
  "$SYS.REQ.SERVER.PING",
];

const everySubject = [
  ...places,
  ...verbs.flatMap((verb) =>
    verb.includes(".S") ? streams.map((name) => verb.replace(/\.S(?=\.|$)/, `.${name}`)) : [verb],
  ),
];

const bodyOf = (subject: string, role: BrokerRole): string => {
  if (subject.includes(".MSG.NEXT.")) return JSON.stringify({ batch: 3, no_wait: true });
  if (/\.(MSG|DIRECT)\.GET\./.test(subject)) return JSON.stringify({ seq: 1 });
  const stream = ["operator", "watcher"].includes(role) ? "events" : "commands";
  const filter = stream === "commands" ? `muster.test.commands.${role}-attacker.>` : null;
  if (subject.includes(".CONSUMER.CREATE."))
    return JSON.stringify({ stream_name: subject.split(".")[4], config: { deliver_subject: "muster.test.journal" } });
  if (subject.includes(".desk."))
    return JSON.stringify({ stream, filter, name: `${role}-${role}-attacker-x`, start: "all", ack: null });
  return "attack";
};

/** What a role may ask for, each with a name of its own consumer. */
const requestsOf = (role: BrokerRole): string[] =>
  permissionsOf("test", role, `${role}-attacker`).publish.flatMap((pattern) => {
    const literal = pattern.replace(/\.>$/, ".x").replace(/\.\*$/, `.${role}-${role}-attacker-x`);
    return pattern.startsWith("$JS.ACK") ? [`${pattern.slice(0, -2)}.victim.1.1.1.1.0`] : [literal];
  });

test.each(attackers)(
  "%s makes nothing but its own words, whatever it asks and wherever it has the answer sent",
  async (role) => {
    await advance(`before-${role}`);
    const attacker = await connectRaw(server, role);
    const desk = bodyOf(".desk.", role);
    const hasDesk = role !== "script";
    if (hasDesk) await attacker.request(`muster.test.desk.${role}.${role}-attacker`, desk, { timeout: 5_000 });
    const before = await brokerState(role);
    for (const subject of requestsOf(role)) {
      const body = bodyOf(subject, role);
      for (const reply of everySubject) attacker.publish(subject, body, { reply });
      for (const place of everySubject) {
        const traced = rawHeaders({ "Nats-Trace-Dest": place });
        attacker.publish(subject, body, { headers: traced, reply: `${inboxOf(role)}.x` });
      }
    }
    for (const subject of everySubject) attacker.publish(subject, "{}", { reply: `${inboxOf(role)}.x` });
    await attacker.flush();
    let last = "";
    const isQuiet = async (): Promise<boolean> => {
      const [earlier, now] = [last, JSON.stringify(await brokerState(null))];
      last = now;
      return earlier === now;
    };
    await waitFor(isQuiet, { what: "the broker to have done everything that was asked" });
    expect(await brokerState(role)).toEqual(before);
    await advance(`after-${role}`);
    await attacker.close();
  },
);

test("a message id that somebody else used first swallows nothing, and one's own is still stored once", async () => {
  const policy = await server.connect("policy.p0.a1");
  const rollout = await connectRaw(server, "rollout", "r9");
  const sibling = await server.connect("rollout.r7.a1");
  const traced = rawHeaders({ "Nats-Msg-Id": "p0-a1.7" });
  await rollout.request("muster.test.reports.rollout.r9.replica.left", "forged", { headers: traced, timeout: 5_000 });
  await sibling.publish("muster.test.reports.rollout.r7.replica.left", bytes("forged"), { msgId: "p0-a1.7" });
  const vote = () => policy.publish("muster.test.reports.policy.p0.step.voted", bytes("vote"), { msgId: "p0-a1.7" });
  const { seq, duplicate } = await vote();
  expect(duplicate).toBe(false);
  expect(await vote()).toEqual({ seq, duplicate: true });
  await rollout.close();
});

test("a replica reads no other role's orders through a name that it knows, and no consumer is made where it delivers to", async () => {
  const rollout = await connectRaw(server, "rollout", "r0");
  const asked = async (question: object): Promise<unknown> => ask(rollout, "muster.test.desk.rollout.r0", question);
  const own = {
    stream: "commands",
    filter: "muster.test.commands.r0.>",
    name: "rollout-r0-x",
    start: "new",
    ack: null,
  };
  expect(await asked(own)).toMatchObject({ info: { name: "rollout-r0-x" } });
  for (const wrong of [
    { stream: "journal" },
    { stream: "reports", filter: "muster.test.reports.>" },
    { stream: "groups" },
    { filter: "muster.test.commands.>" },
    { filter: "muster.test.commands.r1.>" },
    { name: "rollout-r1-x" },
    { filter: "muster.test.commands.*.>" },
    { filter: "muster.other.commands.r0.>" },
    { filter: null },
    { name: "policy-p0-x" },
    { name: "rollout-r0-x.y" },
    { start: 0 },
    { start: "last" },
    { ack: { maxPending: 1e9, waitMs: 5_000 } },
    { ack: { maxPending: 1 } },
    { ack: "all" },
  ])
    expect(await asked({ ...own, ...wrong }), JSON.stringify(wrong)).toMatchObject({ error: { code: 400 } });
  expect(await asked({ ...own, deliver_subject: "muster.test.journal", name: "rollout-r0-push" })).toMatchObject({
    info: { config: expect.not.objectContaining({ deliver_subject: expect.anything() }) },
  });
  await rollout.close();
});

test.each(["operator", "watcher"] as const)(
  "%s has consumers deliver to nothing but its own inbox, takes over nobody's, and removes nobody's",
  async (role) => {
    const reader = await connectRaw(server, role);
    const create = (stream: string, config: object) =>
      ask(reader, `$JS.API.CONSUMER.CREATE.${stream}.stolen`, { stream_name: stream, config });
    const before = await brokerState(role);
    for (const stream of ["muster-test-events", "KV_muster-test"]) {
      const others = [`_INBOX_${role === "operator" ? "watcher" : "operator"}.x.y`, "_INBOX_controller.c0.y"];
      const patterns = [
        ">",
        `_INBOX_${role}.>`,
        `_INBOX_${role}.x.*`,
        `_INBOX_${role}.x`,
        `_INBOX_${role}..y`,
        " ",
        "",
      ];
      for (const deliver_subject of [
        ...everySubject.filter((place) => !place.startsWith(`_INBOX_${role}.`)),
        ...others,
      ])
        expect(await create(stream, { deliver_subject }), deliver_subject).toMatchObject({ error: { code: 400 } });
      for (const deliver_subject of patterns)
        expect(await create(stream, { deliver_subject }), deliver_subject).toMatchObject({ error: { code: 400 } });
      const victim = { durable_name: "victim", ack_policy: "none", mem_storage: true };
      await ask(raw, `$JS.API.CONSUMER.CREATE.${stream}.victim`, { stream_name: stream, config: victim });
      for (const asked of [
        { action: "create" },
        { action: "update" },
        { type: "io.nats.jetstream.api.v1.stream_info_response" },
      ]) {
        const question = { stream_name: stream, config: { ack_policy: "none" }, ...asked };
        const taken = await ask(reader, `$JS.API.CONSUMER.CREATE.${stream}.victim`, question);
        expect(taken, JSON.stringify(asked)).toMatchObject({ error: { code: 400 } });
      }
      const removed = await ask(reader, `$JS.API.CONSUMER.DELETE.${stream}.victim`, {});
      expect(removed).toMatchObject({ error: { code: 404 } });
      await ask(raw, `$JS.API.CONSUMER.DELETE.${stream}.victim`, {});
    }
    for (const wrong of ["", "[]", '{"config":7}', '{"config":{"filter_subjects":7}}', "x".repeat(9_000)])
      expect(
        (await reader.request("$JS.API.CONSUMER.CREATE.muster-test-events", wrong, { timeout: 5_000 })).json(),
      ).toMatchObject({ error: { code: 400 } });
    expect(await brokerState(role)).toEqual(before);
    await reader.close();
  },
);

const inboxOf = (role: BrokerRole): string => `_INBOX_${role}.${role}-attacker`;
