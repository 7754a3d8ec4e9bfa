/** Durable reading: order, filters, bounds, work queues. */
import type { Delivery } from "@muster/transport";
import { expect, test } from "vitest";
import { waitFor } from "../wait-for.ts";
import type { Actors } from "./actors.ts";
import { ackingInbox, bytes, command, commandsOf, Inbox, publishAll, subjects } from "./helpers.ts";

export function testConsuming(actors: () => Actors): void {
  test("an actor gets its own commands in order, and none from before it came", async () => {
    const { rollout } = actors();
    await command(actors, ["early"]);
    const inbox = ackingInbox();
    await rollout.consume({ ...commandsOf(actors, "r0"), handle: inbox.ack });
    await command(actors, ["1", "2"]);
    await command(actors, ["other"], "r1");
    await command(actors, ["3"]);
    await inbox.has(3);
    expect(inbox.texts).toEqual(["1", "2", "3"]);
    expect(inbox.items[0]).toMatchObject({ redeliveries: 0, seq: 2 });
  });

  test("no more than maxPending messages are out at a time", async () => {
    const { rollout } = actors();
    const inbox = new Inbox<Delivery>();
    const all = ackingInbox();
    await rollout.consume({ ...commandsOf(actors, "r0", { maxPending: 2 }), handle: inbox.take });
    await rollout.consume({ ...commandsOf(actors, "r0", { consumer: "r0-control" }), handle: all.ack });
    await command(actors, ["1", "2", "3"]);
    await all.has(3);
    await inbox.has(2);
    expect(inbox.texts).toEqual(["1", "2"]);
    inbox.items[0]?.ack();
    await inbox.has(3);
    expect(inbox.texts).toEqual(["1", "2", "3"]);
  });

  test("reports published before the controller reads are kept, and go when acknowledged", async () => {
    const { controller, rollout } = actors();
    const subject = subjects(rollout).report("rollout", "r0", "groups.completed");
    await publishAll(rollout, subject, ["1", "2"]);
    const inbox = ackingInbox();
    await controller.consume({
      stream: "reports",
      consumer: "controller",
      filter: subjects(controller).all.reports,
      deliver: "all",
      maxPending: 16,
      handle: inbox.ack,
    });
    await inbox.has(2);
    expect(inbox.items.map((delivery) => delivery.subject)).toEqual([subject, subject]);
    const gone = async (): Promise<boolean> => {
      const error = await controller.fetch("reports", 2).catch((reason: unknown) => reason);
      return (error as { readonly code?: string }).code === "MUSTER_ERR_MESSAGE_GONE";
    };
    await waitFor(gone, { what: "the acknowledged report to be gone" });
  });

  test("a thousand commands arrive in order", async () => {
    const { controller, rollout } = actors();
    const inbox = ackingInbox();
    await rollout.consume({ ...commandsOf(actors, "r0", { maxPending: 256 }), handle: inbox.ack });
    const numbers = Array.from({ length: 1_000 }, (_, i) => String(i));
    const subject = subjects(controller).command("r0", "work.assign");
    await Promise.all(numbers.map((n) => controller.publish(subject, bytes(n), { msgId: n })));
    await inbox.has(numbers.length);
    const seqs = inbox.items.map(({ seq }) => seq);
    expect(seqs).toEqual(numbers.map((_, i) => i + 1));
    expect(new Set(inbox.texts).size).toBe(numbers.length);
  });
}
