/** The credentials of a script open its barriers and nothing else of the job, on a real broker. */
import { connectJob, type JobClient } from "@muster/client";
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  subjectsOf,
} from "@muster/protocol";
import { messageKinds } from "@muster/protocol/internal";
import { connectRaw, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { brokerRoles, credentialsOfReplica, type Transport } from "@muster/transport";
import { afterAll, beforeAll, expect, test } from "vitest";

const subjects = subjectsOf("test");
const streams = ["reports", "commands", "journal", "groups", "events"].map((name) => `muster-test-${name}`);
const bucket = "KV_muster-test";
const refused = { code: "MUSTER_ERR_BROKER_PERMISSION" };
const arrival: Body<"barrier.arrived"> = { epoch: 0, iteration: 1, phase: 3, rank: 0, ranks: 1 };
const enveloper = createEnveloper({
  ...{ job: "test", id: "c0", role: "controller", incarnation: "i1", wallMs: Date.now },
});

let server: TestServer;
let controller: Transport;
let heard: AnyMessage[];
let script: JobClient;
beforeAll(async () => {
  server = await startTestServer();
  controller = await server.connect("controller.c0.a1");
  heard = [];
  await controller.consume({
    ...{ stream: "reports", consumer: "controller", filter: subjects.all.reports, deliver: "all", maxPending: 8 },
    handle: ({ data, ack }) => {
      ack();
      const message = decodeMessage(data);
      heard.push(message);
      if (message.kind === "barrier.arrived") void answer(message.body);
    },
  });
  const credentials = credentialsOfReplica(server.server.credentials.script, "host-0");
  script = await connectJob({ url: server.url, job: "test", credentials });
});
afterAll(async () => {
  await script.close();
  await server.close();
});

async function answer({ epoch, iteration, phase, rank }: Body<"barrier.arrived">): Promise<void> {
  const none = {
    missing: [],
    shares: [],
    coverage: 1,
    waitedMs: 0,
    reason: "all 1 ranks that were waited for arrived",
  };
  const end = enveloper.stamp("barrier.ended", {
    ...{ epoch, iteration, phase, outcome: "whole", arrived: [rank], ...none },
  }) as AnyMessage;
  await controller.publish(subjects.event(end.kind), encodeMessage(end), { msgId: end.id });
}

test("a script arrives under the id of its credentials, and hears how its barrier ended", async () => {
  expect(await script.arrive(arrival, { timeoutMs: 5_000 })).toMatchObject({ outcome: "whole", arrived: [0] });
  expect(heard).toMatchObject([{ kind: "barrier.arrived", role: "operator", from: "host-0" }]);
});

test("a script commands nothing, and reads neither events nor the status", async () => {
  const wait = { timeoutMs: 2_000 };
  await expect(script.command("job.stop", { reason: "x" }, wait)).rejects.toMatchObject(refused);
  await expect(script.follow({ fromSeq: 1, take: () => {} })).rejects.toMatchObject(refused);
  await expect(script.status()).rejects.toMatchObject(refused);
});

test("credentials of one id arrive under no other", async () => {
  const credentials = credentialsOfReplica(server.server.credentials.script, "host-0");
  const other = connectJob({ url: server.url, job: "test", credentials, id: "host-1" });
  await expect(other).rejects.toMatchObject({ code: "MUSTER_ERR_CREDENTIALS_OTHER" });
});

/** Where anybody of the job publishes, and what the broker is asked. */
const elsewhere = (id: string): readonly string[] => [
  ...messageKinds.flatMap((kind) => [
    subjects.event(kind),
    subjects.command(id, kind),
    ...["controller", "policy", "rollout", "checkpoint", "node", "script", "watcher"].map(
      (role) => `muster.test.reports.${role}.${id}.${kind}`,
    ),
    subjects.report("operator", "host-1", kind),
    ...(kind === "barrier.arrived" ? [] : [subjects.report("operator", id, kind)]),
  ]),
  ...brokerRoles.flatMap((role) => [`muster.test.hb.${role}.${id}`, `muster.test.desk.${role}.${id}`]),
  ...["muster.test.journal", `muster.test.groups.${id}`, `muster.test.probe.${id}`, "$KV.muster-test.lease"],
  ...[
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.LIST",
    "muster.other.reports.operator.host-0.barrier.arrived",
  ],
  ...[...streams, bucket].flatMap((name) => [
    ...["INFO", "MSG.GET", "PURGE", "DELETE"].map((verb) => `$JS.API.STREAM.${verb}.${name}`),
    ...[`$JS.API.DIRECT.GET.${name}`, `$JS.API.CONSUMER.CREATE.${name}`, `$JS.API.CONSUMER.CREATE.${name}.x`],
    ...[`$JS.API.CONSUMER.MSG.NEXT.${name}.x`, `$JS.API.CONSUMER.DELETE.${name}.x`, `$JS.ACK.${name}.x.1.1.1.1.0`],
  ]),
];

test("the broker refuses whatever else a script publishes or listens to", async () => {
  const raw = await connectRaw(server, "script", "host-0");
  const refusals: string[] = [];
  void (async () => {
    for await (const status of raw.status()) if (status.type === "error") refusals.push(status.error.message);
  })();
  const wanted = elsewhere("host-0");
  const pattern = ["muster.>", "muster.test.events.>", "muster.test.hb.>", "_INBOX_operator.>", "$JS.>", "$KV.>", ">"];
  for (const subject of wanted) raw.publish(subject, "x");
  for (const subject of pattern) raw.subscribe(subject, { callback: () => {} });
  await raw.flush();
  const isRefused = (verb: string, subject: string): boolean =>
    refusals.some((text) => text.toLowerCase().includes(`${verb} to "${subject.toLowerCase()}"`));
  const open = () => [
    ...wanted.filter((subject) => !isRefused("publish", subject)),
    ...pattern.filter((subject) => !isRefused("subscription", subject)),
  ];
  await waitFor(() => open().length === 0, { what: "a refusal of everything", detail: open });
  await raw.close();
});
