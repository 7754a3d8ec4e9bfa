/** Following a stream without acknowledgements. */
import type { TailEntry } from "@muster/transport";
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { Inbox, publishAll, subjects } from "./helpers.ts";

export function testFollowing(actors: () => Actors): void {
  test("a tail shows each entry once and in order, from a sequence or from now on", async () => {
    const { controller } = actors();
    const subject = subjects(controller).event("step.done");
    await publishAll(controller, subject, ["1", "2", "3"]);
    const fromTwo = new Inbox<TailEntry>();
    const fromNow = new Inbox<TailEntry>();
    await controller.tail({ stream: "events", fromSeq: 2, handle: fromTwo.take });
    await controller.tail({ stream: "events", fromSeq: "new", handle: fromNow.take });
    await publishAll(controller, subject, ["4", "5"]);
    await fromTwo.has(4);
    await fromNow.has(2);
    expect(fromTwo.items.map(({ seq }) => seq)).toEqual([2, 3, 4, 5]);
    expect(fromNow.texts).toEqual(["4", "5"]);
    expect(fromNow.items[0]?.subject).toBe(subject);
  });

  test("a closed tail shows nothing more", async () => {
    const { controller } = actors();
    const subject = subjects(controller).event("step.done");
    const closed = new Inbox<TailEntry>();
    const open = new Inbox<TailEntry>();
    const subscription = await controller.tail({ stream: "events", fromSeq: 1, handle: closed.take });
    await controller.tail({ stream: "events", fromSeq: 1, handle: open.take });
    await subscription.close();
    await publishAll(controller, subject, ["1"]);
    await open.has(1);
    expect(closed.items).toEqual([]);
  });
}
