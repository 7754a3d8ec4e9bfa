import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMailbox, type Lane, type MailboxEntry } from "../src/host/mailbox.ts";

const entry = (event: number): MailboxEntry<number> => ({ event, settle: undefined });

describe("the mailbox", () => {
  test("gives control before data and keeps the order of each lane", () => {
    const mailbox = createMailbox<number>(10);
    mailbox.offer(entry(1), "data");
    mailbox.offer(entry(2), "control");
    mailbox.offer(entry(3), "data");
    mailbox.offer(entry(4), "control");
    expect(mailbox.take(3).map(({ event }) => event)).toEqual([2, 4, 1]);
    expect(mailbox.take(3).map(({ event }) => event)).toEqual([3]);
  });

  test("gives no more at once than may weigh so much, in the same order, and one event whatever it weighs", () => {
    const mailbox = createMailbox<number>(10);
    for (const [event, lane] of [
      [4, "data"],
      [3, "control"],
      [12, "data"],
      [5, "data"],
      [5, "data"],
    ] as const)
      mailbox.offer(entry(event), lane);
    const weight = { of: (event: number) => event, max: 10 };
    const batches = Array.from({ length: 4 }, () => mailbox.take(9, weight).map(({ event }) => event));
    expect(batches).toEqual([[3, 4], [12], [5, 5], []]);
  });

  test("refuses outside events at the bound and own events at twice the bound", () => {
    const mailbox = createMailbox<number>(2);
    expect([1, 2, 3].map((n) => mailbox.offer(entry(n), "data"))).toEqual([true, true, false]);
    expect([4, 5, 6].map((n) => mailbox.offerOwn(entry(n), "data"))).toEqual([true, true, false]);
    expect(mailbox.size()).toBe(4);
  });

  test("behaves like two plain arrays whatever is done to it", () => {
    const lane = fc.constantFrom<Lane>("control", "data");
    const operation = fc.oneof(
      fc.record({ do: fc.constant("offer" as const), lane }),
      fc.record({ do: fc.constant("own" as const), lane }),
      fc.record({ do: fc.constant("take" as const), max: fc.integer({ min: 1, max: 9 }) }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.array(operation, { maxLength: 400 }), (limit, operations) => {
        const mailbox = createMailbox<number>(limit);
        const model: Record<Lane, number[]> = { control: [], data: [] };
        for (const [n, step] of operations.entries()) {
          const size = model.control.length + model.data.length;
          if (step.do === "take") {
            const expected = [...model.control.splice(0, step.max)];
            expected.push(...model.data.splice(0, step.max - expected.length));
            expect(mailbox.take(step.max).map(({ event }) => event)).toEqual(expected);
            continue;
          }
          const room = size < (step.do === "own" ? 2 * limit : limit);
          const took = step.do === "own" ? mailbox.offerOwn(entry(n), step.lane) : mailbox.offer(entry(n), step.lane);
          expect(took).toBe(room);
          if (room) model[step.lane].push(n);
          expect([mailbox.depth("control"), mailbox.depth("data")]).toEqual([model.control.length, model.data.length]);
        }
      }),
      { seed: 20_240_917, numRuns: 300 },
    );
  });

  test("stays in order over many more events than it holds at once", () => {
    const mailbox = createMailbox<number>(1000);
    const got: number[] = [];
    for (let n = 0; n < 5000; n++) {
      mailbox.offer(entry(n), "data");
      if (n % 3 !== 0) got.push(...mailbox.take(1).map(({ event }) => event));
      if (mailbox.size() > 900) got.push(...mailbox.take(500).map(({ event }) => event));
    }
    got.push(...mailbox.take(5000).map(({ event }) => event));
    expect(got).toEqual(Array.from({ length: 5000 }, (_, n) => n));
  });
});
