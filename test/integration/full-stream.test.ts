import { type Logger, noMetrics, randomOf, silentLogger } from "@muster/base";
import {
  type AnyMessage,
  createEnveloper,
  decodeMessage,
  subjectsOf,
  toGroupsBegun,
  wholePart,
} from "@muster/protocol";
import { createOutbox, systemClock } from "@muster/runtime";
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { afterEach, beforeEach, expect, test } from "vitest";

const response = {
  responseIds: new Int32Array([1]),
  logprobs: new Float32Array([-1]),
  finish: null,
  segments: [{ version: 0, from: 0, to: 1 }],
};
const begun = [{ step: 0, index: 0, responses: [response] }];

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer({ bytesMax: { groups: 4096 } });
});
afterEach(() => server.close());

test("a rollout that meets a full stream waits, and once it is purged everything arrives once and in order", async () => {
  const controller = await server.connect("controller.c0.a1");
  const rollout = await server.connect("rollout.r0.a1");
  const arrived: AnyMessage[] = [];
  await controller.tail({ stream: "groups", fromSeq: 1, handle: ({ data }) => arrived.push(decodeMessage(data)) });
  const said: string[] = [];
  const failures: unknown[] = [];
  const note = (_: object, message: string): void => void said.push(message);
  const logger: Logger = { ...silentLogger, info: note, warn: note };
  const outbox = createOutbox({
    transport: rollout,
    clock: systemClock(),
    random: randomOf(1),
    logger,
    metrics: noMetrics,
    outboxMax: 100,
    onFailed: (error) => failures.push(error),
    backoff: { firstMs: 10, maxMs: 20 },
  });
  const enveloper = createEnveloper({ job: "test", id: "r0", role: "rollout", incarnation: "a1", wallMs: Date.now });
  const messages = Array.from({ length: 60 }, () =>
    enveloper.stamp("groups.begun", toGroupsBegun(0, begun.map(wholePart))),
  );
  for (const message of messages) outbox.offer({ subject: subjectsOf("test").groups("r0"), message });

  await waitFor(() => said.includes("a full stream holds messages back"), { what: "the word on a full stream" });
  expect(outbox.depth()).toBeGreaterThan(0);
  const purged = async (): Promise<boolean> => {
    await controller.purge("groups", arrived.length + 1);
    return outbox.depth() === 0 && arrived.length === messages.length;
  };
  await waitFor(purged, { what: "every message", timeoutMs: 20_000, detail: () => [outbox.depth(), arrived.length] });
  expect(arrived.map(({ id }) => id)).toEqual(messages.map(({ id }) => id));
  expect(failures).toEqual([]);
  outbox.close();
});
