/** The desk when a whole fleet comes at once. A server takes 1,000 consumers to a stream unless it is told otherwise. */
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import type { TransportStatus } from "@muster/transport";
import { afterEach, beforeEach, expect, test } from "vitest";

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(() => server.close());

test("four thousand readers that come at once all get their orders", { timeout: 120_000 }, async () => {
  const count = 4_000;
  const controller = await server.connect("controller.c0.a1");
  const readers = await server.connect("rollout.r0.a1");
  const faults: TransportStatus[] = [];
  readers.onStatus((status) => void (status.type === "error" && faults.push(status)));
  const heard = new Set<number>();
  const join = (i: number) =>
    readers.consume({
      stream: "commands",
      consumer: `r${i}-a1`,
      filter: "muster.test.commands.r0.>",
      deliver: "new",
      maxPending: 8,
      handle: ({ ack }) => {
        heard.add(i);
        ack();
      },
    });
  await Promise.all(Array.from({ length: count }, (_, i) => join(i)));
  await controller.publish("muster.test.commands.r0.work.assign", new Uint8Array(1), { msgId: "order" });
  await waitFor(() => heard.size === count, { what: "the order to arrive at all", detail: () => heard.size });
  expect(faults).toEqual([]);
});
