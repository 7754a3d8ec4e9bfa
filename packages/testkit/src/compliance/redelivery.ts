/** What comes again, when, and what never does. */
import type { Delivery, TransportStatus } from "@muster/transport";
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { ackingInbox, command, commandsOf, Inbox, text } from "./helpers.ts";

export function testRedelivery(actors: () => Actors): void {
  test("what is not acknowledged in time comes again and says so", async () => {
    const { rollout } = actors();
    const inbox = new Inbox<Delivery>();
    await rollout.consume({
      ...commandsOf(actors, "r0", { ackWaitMs: 300 }),
      handle: (delivery) => {
        inbox.take(delivery);
        if (delivery.redeliveries === 2) delivery.ack();
      },
    });
    await command(actors, ["1"]);
    await inbox.has(3);
    expect(inbox.items.map(({ seq, redeliveries }) => [seq, redeliveries])).toEqual([
      [1, 0],
      [1, 1],
      [1, 2],
    ]);
  });

  test("a refused delivery comes again after its delay, a terminated one never", async () => {
    const { rollout } = actors();
    const inbox = new Inbox<Delivery>();
    await rollout.consume({
      ...commandsOf(actors, "r0"),
      handle: (delivery) => {
        inbox.take(delivery);
        if (text(delivery.data) === "bad") delivery.term();
        else if (delivery.redeliveries === 0) delivery.nak(100);
        else delivery.ack();
      },
    });
    await command(actors, ["bad", "later"]);
    await inbox.has(3);
    expect(inbox.texts).toEqual(["bad", "later", "later"]);
  });

  test("a durable consumer goes on where it stood after its reader closed", async () => {
    const { rollout } = actors();
    const before = new Inbox<Delivery>();
    const options = commandsOf(actors, "r0", { ackWaitMs: 500 });
    const reading = await rollout.consume({
      ...options,
      handle: (delivery) => {
        before.take(delivery);
        if (text(delivery.data) === "1") delivery.ack();
      },
    });
    await command(actors, ["1", "2"]);
    await before.has(2);
    await rollout.flush();
    await reading.close();
    await command(actors, ["3"]);
    const after = ackingInbox();
    await rollout.consume({ ...options, handle: after.ack });
    await after.has(2);
    expect([...after.texts].sort()).toEqual(["2", "3"]);
    expect(before.texts).toEqual(["1", "2"]);
  });
}

/** A handler that fails must lose nothing. */
export function testFailingHandlers(actors: () => Actors): void {
  test("a handler that throws is reported and gets the message again", async () => {
    const { rollout } = actors();
    const faults: TransportStatus[] = [];
    rollout.onStatus((status) => status.type === "error" && faults.push(status));
    const inbox = new Inbox<Delivery>();
    await rollout.consume({
      ...commandsOf(actors, "r0"),
      handle: (delivery) => {
        inbox.take(delivery);
        if (delivery.redeliveries === 0) throw new Error("on purpose");
        delivery.ack();
      },
    });
    await command(actors, ["1"]);
    await inbox.has(2);
    expect(faults).toMatchObject([{ error: { code: "MUSTER_ERR_DELIVERY_HANDLER_FAILED", retryable: true } }]);
  });
}
