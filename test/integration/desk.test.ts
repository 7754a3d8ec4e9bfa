/** The desk when a whole fleet comes at once. A server takes 1,000 consumers to a stream unless it is told otherwise. */
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import type { TransportStatus } from "@muster/transport";
import { afterEach, beforeEach, expect, test } from "vitest";

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(() => server.close());

test("four thousand samplers that come at once all get their orders", { timeout: 120_000 }, async () => {
  const count = 4_000;
  const controller = await server.connect("controller.c0.a1");
  const samplers = await server.connect("rollout.r0.a1");
  const faults: TransportStatus[] = [];
  samplers.onStatus((status) => void (status.type === "error" && faults.push(status)));
  const heard = new Set<string>();
  const join = (i: number) =>
    samplers.consume({
      stream: "commands",
      consumer: `r${i}-a1`,
      filter: `muster.test.commands.r${i}.>`,
      deliver: "new",
      maxPending: 8,
      handle: ({ subject, ack }) => {
        heard.add(subject);
        ack();
      },
    });
  await Promise.all(Array.from({ length: count }, (_, i) => join(i)));
  const orders = [0, 1, 999, 3_999].map((i) => `muster.test.commands.r${i}.work.assign`);
  for (const order of orders) await controller.publish(order, new Uint8Array(1), { msgId: order });
  await waitFor(() => orders.every((order) => heard.has(order)), { what: "orders to arrive" });
  expect(faults).toEqual([]);
});
