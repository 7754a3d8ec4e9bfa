/** How a controller ends: what it still says, how long it waits for that, and what it leaves. */
import { defineErrors } from "@muster/base";
import type { Journal, Transport } from "@muster/transport";
import { describe, expect, it } from "vitest";
import { readAlive } from "../src/controller/alive.ts";
import { decodeRecord } from "../src/controller/index.ts";
import { type Lone, settled, startLone } from "./support/lone-controller.ts";

const errors = defineErrors("TEST_END", {
  Broken: { message: "the disk is broken" },
  Unknown: { message: "nobody knows", retryable: true },
});

type Overrides = (inner: Transport) => Partial<Transport>;

/** From the second record on the journal answers with this error. */
function failing(error: () => Error): Overrides {
  let appends = 0;
  return (inner) => ({
    journal: () => {
      const journal = inner.journal();
      const append: Journal["append"] = async (...given) => {
        if (++appends > 1) throw error();
        return await journal.append(...given);
      };
      return { ...journal, append };
    },
  });
}

/** Events are stored one after the other, each when `next` is called; `isOpen`: at once. */
function slowly() {
  const waiting: (() => void)[] = [];
  const gate = { isOpen: true };
  const overrides: Overrides = (inner) => ({
    publish: async (...given) => {
      if (!gate.isOpen) await new Promise<void>((resolve) => waiting.push(resolve));
      return await inner.publish(...given);
    },
  });
  return { overrides, gate, next: () => waiting.shift()?.() };
}

const fail = (lone: Lone): Promise<void> => lone.voice("rollout-99").register();

describe("a controller whose journal takes no more", () => {
  it("has failed for good, and tells the operator why, where the reason will not pass", async () => {
    const lone = await startLone({ overrides: failing(errors.Broken) });
    await fail(lone);
    await settled();
    expect(lone.end()).toEqual({ outcome: "failed", reason: "the disk is broken" });
    expect(lone.bodiesOf("alarm.raised")).toEqual([{ alarm: "controller", detail: "the disk is broken" }]);
  });

  it("is lost, and says nothing of it, where nobody knows what became of its last word: another one reads the journal", async () => {
    const lone = await startLone({ overrides: failing(errors.Unknown) });
    await fail(lone);
    await settled();
    expect(lone.end()).toEqual({ outcome: "lost", reason: "nobody knows" });
    expect(lone.bodiesOf("alarm.raised")).toEqual([]);
  });
});

describe("what a controller that ends has still to say", () => {
  /** Ends with the journal's error while so many events wait to be stored. */
  async function ending(error: () => Error, count: number) {
    const { overrides, gate, next } = slowly();
    let isBroken = false;
    const lone = await startLone({
      overrides: (inner) => ({
        ...overrides(inner),
        journal: () => {
          const journal = inner.journal();
          const append: Journal["append"] = async (...given) => {
            if (isBroken) throw error();
            return await journal.append(...given);
          };
          return { ...journal, append };
        },
      }),
    });
    gate.isOpen = false;
    for (let i = 0; i < count; i++) await lone.voice(`rollout-${i}`).register();
    await settled();
    isBroken = true;
    await fail(lone);
    await settled();
    return { ...lone, next };
  }

  it("is waited for as long as each time that members have to leave brings some of it to the broker, sixteen times at most", async () => {
    const { end, pass, next, config } = await ending(errors.Broken, 30);
    const { drainMs } = config.timing;
    for (let round = 1; round <= 15; round++) {
      next();
      await pass(drainMs);
      expect(end(), `after ${round} rounds`).toBeNull();
    }
    next();
    await pass(drainMs);
    expect(end()).toEqual({ outcome: "failed", reason: "the disk is broken" });
  });

  it("is given up when such a time brings none of it there", async () => {
    const { end, pass, next, config } = await ending(errors.Broken, 5);
    const { drainMs } = config.timing;
    next();
    await pass(drainMs);
    expect(end()).toBeNull();
    await pass(drainMs - 100);
    expect(end()).toBeNull();
    await pass(100);
    expect(end()).toEqual({ outcome: "failed", reason: "the disk is broken" });
  });

  it("holds it up no longer when all of it is there", async () => {
    const { end, pass, next } = await ending(errors.Broken, 2);
    for (let i = 0; i < 20; i++) {
      next();
      await settled();
    }
    await pass(100);
    expect(end()).toEqual({ outcome: "failed", reason: "the disk is broken" });
  });

  it("is void when it is lost: nobody waits", async () => {
    const { end } = await ending(errors.Unknown, 5);
    expect(end()).toEqual({ outcome: "lost", reason: "nobody knows" });
  });
});

describe("what a controller leaves", () => {
  const lastRecord = async ({ broker }: Lone) => {
    let last: ReturnType<typeof decodeRecord> | null = null;
    for await (const { seq, data } of broker.connect("w.w.1").journal().read(1)) last = decodeRecord(seq, data);
    return last;
  };

  it("is a snapshot as the last record, and a sign that the job goes on, when it is told to go", async () => {
    const lone = await startLone();
    lone.controller.abort("over");
    await settled();
    expect(await lastRecord(lone)).toMatchObject({ part: expect.anything() });
    expect(await readAlive(lone.broker.connect("w.w.2").state())).toMatchObject({ term: 1, isOver: false });
    // To be told to go is no failure.
    expect(lone.bodiesOf("alarm.raised")).toEqual([]);
  });

  it("is the journal as it is when another one has taken over, or it has lost its way", async () => {
    const lone = await startLone({ overrides: failing(errors.Unknown) });
    await fail(lone);
    await settled();
    expect(await lastRecord(lone)).toMatchObject({ events: [{ type: "controller.elected" }] });
  });

  it("is no timer, though the broker takes none of its words", async () => {
    const refuse = async (): Promise<never> => {
      throw errors.Unknown();
    };
    const lone = await startLone({ overrides: () => ({ publish: refuse }) });
    await lone.voice("rollout-0").register();
    lone.controller.abort("over");
    await settled();
    await lone.pass(3_000);
    expect(lone.end()).toEqual({ outcome: "aborted", reason: "over" });
    expect(lone.time.untilNextMs()).toBeNull();
  });

  it("is nothing more, and at once, when the broker is away", async () => {
    let appends = 0;
    const lone = await startLone({
      overrides: (inner) => ({
        journal: () => {
          const journal = inner.journal();
          const append: Journal["append"] = (...given) => {
            appends += 1;
            return journal.append(...given);
          };
          return { ...journal, append };
        },
        isConnected: () => false,
      }),
    });
    lone.controller.abort("over");
    await settled();
    expect(lone.end()).toEqual({ outcome: "aborted", reason: "over" });
    expect(appends).toBe(1);
  });
});
