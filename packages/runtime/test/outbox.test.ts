import { defineErrors, hasCode, randomOf } from "@muster/base";
import { type AnyMessage, decodeMessage, payloadBytesMax, subjectsOf } from "@muster/protocol";
import type { PublishAck, Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { createOutbox, type Outbox, type OutboxOptions } from "../src/index.ts";
import { type ManualClock, manualClock } from "../src/internal.ts";
import { countingMetrics, recordingLogger, speaker, turns } from "./helpers.ts";

const subjects = subjectsOf("dates");
const errors = defineErrors("TEST_OUTBOX", {
  Unknown: { message: "no answer", retryable: true },
  Forbidden: { message: "not allowed" },
});

/** What happens to a try: it goes well, it is lost before the store, or its answer is lost after the store. */
type Fault = "none" | "lost" | "answer lost" | "forbidden";

/** The real memory transport behind a line that fails as told. */
function faultyLine(transport: Transport, next: () => Fault) {
  const tries: string[] = [];
  let inFlight = 0;
  let inFlightMax = 0;
  const publish: Transport["publish"] = async (subject, data, options) => {
    tries.push(options.msgId);
    inFlightMax = Math.max(inFlightMax, ++inFlight);
    try {
      const fault = next();
      if (fault === "forbidden") throw errors.Forbidden();
      const ack = fault === "lost" ? null : await transport.publish(subject, data, options);
      if (ack && fault === "none") return ack;
      throw errors.Unknown();
    } finally {
      inFlight -= 1;
    }
  };
  return { publish, tries, inFlightMax: () => inFlightMax };
}

describe("the outbox", () => {
  let clock: ManualClock;
  let broker: MemoryBroker;
  let sender: Transport;
  let stored: AnyMessage[];
  let counted: ReturnType<typeof countingMetrics>;
  let failures: unknown[];
  beforeEach(async () => {
    clock = manualClock();
    broker = createMemoryBroker({ job: "dates", clock });
    sender = broker.connect("rollout.rollout-0.a1");
    stored = [];
    counted = countingMetrics();
    failures = [];
    const reader = broker.connect("controller.c.c1");
    const keep = ({ data }: { readonly data: Uint8Array }): void => void stored.push(decodeMessage(data));
    await reader.tail({ stream: "reports", fromSeq: 1, handle: keep });
    await reader.tail({ stream: "events", fromSeq: 1, handle: keep });
  });
  const outbox = (options: Partial<OutboxOptions> = {}): Outbox =>
    createOutbox({
      transport: sender,
      clock,
      random: randomOf(1),
      logger: recordingLogger().logger,
      metrics: counted.metrics,
      outboxMax: 10,
      onFailed: (error) => failures.push(error),
      ...options,
    });
  const report = (from = speaker()) => {
    const message = from.stamp("mesh.built", { epoch: 1 });
    return { subject: subjects.report(message.role, message.from, message.kind), message };
  };
  const announcement = () => {
    const from = speaker({ id: "controller", role: "controller" });
    const message = from.stamp("alarm.raised", { alarm: "a", detail: "" });
    return { subject: subjects.event(message.kind), message };
  };
  /** Moves time until the outbox is empty; back-off is at most 2 s a try. */
  const drain = async (box: Outbox): Promise<void> => {
    for (let n = 0; n < 500 && box.depth() > 0; n++) {
      clock.advance(2_000);
      await turns(2);
    }
    expect(box.depth()).toBe(0);
  };

  test("stores what it is offered and says where", async () => {
    const acks: PublishAck[] = [];
    const box = outbox();
    const from = speaker();
    for (let n = 0; n < 3; n++) expect(box.offer({ ...report(from), onStored: (ack) => acks.push(ack) })).toBe(true);
    await drain(box);
    expect(stored.map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(acks.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  test("keeps the order of a lane and stores each message once, whatever fails", async () => {
    const fault = fc.constantFrom<Fault>("none", "lost", "answer lost");
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { maxLength: 30 }), fc.integer({ min: 1, max: 10 }), async (faults, count) => {
        const own = createMemoryBroker({ job: "dates", clock });
        const line = faultyLine(own.connect("rollout.rollout-0.a1"), () => faults.shift() ?? "none");
        const seqs: number[] = [];
        await own
          .connect("controller.c.c1")
          .tail({ stream: "reports", fromSeq: 1, handle: ({ data }) => seqs.push(decodeMessage(data).seq) });
        const box = outbox({ transport: line });
        const from = speaker();
        for (let n = 0; n < count; n++) box.offer(report(from));
        await drain(box);
        await turns(2);
        expect(seqs).toEqual(Array.from({ length: count }, (_, n) => n + 1));
        expect(line.inFlightMax()).toBe(1);
      }),
      { seed: 3, numRuns: 60 },
    );
  });

  test("tries again with the same message id, later each time", async () => {
    const line = faultyLine(sender, () => "lost");
    const box = outbox({ transport: line, backoff: { firstMs: 100, maxMs: 400 } });
    box.offer(report());
    const waits: number[] = [];
    for (let n = 0; n < 6; n++) {
      await turns(1);
      const waitMs = clock.untilNextMs() ?? 0;
      waits.push(waitMs);
      clock.advance(waitMs);
    }
    box.close();
    expect(new Set(line.tries)).toEqual(new Set(["a1.1"]));
    for (const [n, limit] of [100, 200, 400, 400, 400, 400].entries()) {
      expect(waits[n]).toBeGreaterThanOrEqual(limit / 2);
      expect(waits[n]).toBeLessThanOrEqual(limit);
    }
    expect(counted.total("muster_outbox_retries_total")).toBe(6);
  });

  test("keeps everything through a cut of the connection", async () => {
    const box = outbox({ publishMs: 500 });
    const from = speaker();
    broker.disconnect("rollout.rollout-0.a1");
    for (let n = 0; n < 4; n++) box.offer(report(from));
    for (let n = 0; n < 20; n++) {
      clock.advance(1_000);
      await turns(2);
    }
    expect([box.depth(), stored.length]).toEqual([4, 0]);
    broker.reconnect("rollout.rollout-0.a1");
    await drain(box);
    expect(stored.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect(failures).toEqual([]);
  });

  describe("at a full stream", () => {
    let full: MemoryBroker;
    let said: ReturnType<typeof recordingLogger>;
    let arrived: number[];
    beforeEach(async () => {
      full = createMemoryBroker({ job: "dates", clock, bytesMax: { reports: 400 } });
      said = recordingLogger();
      arrived = [];
      await full
        .connect("controller.c.c1")
        .tail({ stream: "reports", fromSeq: 1, handle: ({ data }) => arrived.push(decodeMessage(data).seq) });
    });
    const boxOf = (): Outbox =>
      outbox({ transport: full.connect("rollout.rollout-0.a1"), logger: said.logger, outboxMax: 20 });
    const wait = async (ms: number): Promise<void> => {
      for (let n = 0; n < ms; n += 1_000) {
        clock.advance(1_000);
        await turns(2);
      }
    };
    const warnings = () => said.lines.filter(({ level }) => level === "warn");

    test("holds everything until there is room, then sends it once and in order", async () => {
      const box = boxOf();
      const from = speaker();
      for (let n = 0; n < 10; n++) box.offer(report(from));
      await wait(10_000);
      const before = arrived.length;
      expect([before > 0, box.depth()]).toEqual([true, 10 - before]);
      expect(failures).toEqual([]);
      for (let n = 0; n < 10 && box.depth() > 0; n++) {
        await full.connect("controller.c.c1").purge("reports", arrived.length + 1);
        await wait(4_000);
      }
      expect(arrived).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
      expect(said.lines.at(-1)).toMatchObject({ level: "info", message: "the stream takes messages again" });
    });

    test("says so once a minute, with what makes room, and counts every try", async () => {
      const box = boxOf();
      const from = speaker();
      for (let n = 0; n < 10; n++) box.offer(report(from));
      await wait(50_000);
      expect(warnings()).toMatchObject([
        { message: "a full stream holds messages back", fields: { stream: "muster-dates-reports" } },
      ]);
      expect(JSON.stringify(warnings()[0]?.fields)).toContain("the controller takes reports away");
      await wait(20_000);
      expect(warnings()).toHaveLength(2);
      expect(counted.total("muster_outbox_held_back_total", { stream: "muster-dates-reports" })).toBeGreaterThan(20);
      box.close();
    });
  });

  test("does not hold one destination up for another", async () => {
    const stuck = new Set(["a1.1"]);
    const transport: Pick<Transport, "publish"> = {
      publish: (subject, data, options) =>
        stuck.has(options.msgId) ? Promise.reject(errors.Unknown()) : sender.publish(subject, data, options),
    };
    const box = outbox({ transport });
    box.offer(report(speaker({ incarnation: "a1" })));
    box.offer(report(speaker({ id: "rollout-1", incarnation: "b1" })));
    await turns(4);
    expect(stored.map(({ incarnation }) => incarnation)).toEqual(["b1"]);
    stuck.clear();
    await drain(box);
    expect(stored.map(({ incarnation }) => incarnation)).toEqual(["b1", "a1"]);
  });

  test("sheds and counts public events at its bound, and goes on", async () => {
    broker.disconnect("rollout.rollout-0.a1");
    const box = outbox({ outboxMax: 2 });
    expect([1, 2, 3].map(() => box.offer(announcement()))).toEqual([true, true, false]);
    expect(counted.total("muster_outbox_shed_total", { kind: "alarm.raised" })).toBe(1);
    expect(failures).toEqual([]);
    box.close();
  });

  test("ends at its bound when anything else would be lost", async () => {
    broker.disconnect("rollout.rollout-0.a1");
    const box = outbox({ outboxMax: 2 });
    expect([1, 2, 3, 4].map(() => box.offer(report()))).toEqual([true, true, false, false]);
    expect(failures).toHaveLength(1);
    expect(hasCode(failures[0], "MUSTER_ERR_OUTBOX_FULL")).toBe(true);
  });

  test("ends when the broker refuses for good", async () => {
    const box = outbox({ transport: faultyLine(sender, () => "forbidden") });
    box.offer(report());
    await turns(2);
    expect(hasCode(failures[0], "TEST_OUTBOX_FORBIDDEN")).toBe(true);
    expect(box.offer(report())).toBe(false);
  });

  test("refuses a message over the payload limit at once", () => {
    const from = speaker({ role: "policy" });
    const message = { ...from.stamp("replica.left", { reason: "" }), body: { reason: "x".repeat(payloadBytesMax) } };
    expect(() => outbox().offer({ subject: "muster.dates.reports.policy.p.replica.left", message })).toThrow(
      /over the limit/,
    );
  });

  test("flushes: true once all is stored, false at the deadline", async () => {
    const box = outbox();
    expect(await box.flush(100)).toBe(true);
    box.offer(report());
    expect(await box.flush(1_000)).toBe(true);

    broker.disconnect("rollout.rollout-0.a1");
    box.offer(report());
    const flushed = box.flush(1_000);
    clock.advance(1_000);
    expect(await flushed).toBe(false);
    const waiting = box.flush(1_000);
    box.close();
    expect(await waiting).toBe(false);
  });

  test("sends nothing after it is closed", async () => {
    const line = faultyLine(sender, () => "lost");
    const box = outbox({ transport: line });
    box.offer(report());
    await turns(2);
    box.close();
    const tries = line.tries.length;
    clock.advance(60_000);
    await turns(4);
    expect([line.tries.length, clock.untilNextMs()]).toEqual([tries, null]);
  });

  test("tells everybody who waits in the lane of a message that a full stream refuses, at each try", async () => {
    const narrow = createMemoryBroker({ job: "dates", clock, bytesMax: { reports: 1 } });
    const full = outbox({ transport: narrow.connect("rollout.rollout-0.a1") });
    const from = speaker();
    const told: string[] = [];
    for (const name of ["first", "second"]) {
      const message = from.stamp("replica.left", { reason: "x".repeat(2_000) });
      const subject = subjects.report("rollout", "rollout-0", "replica.left");
      full.offer({ subject, message, onHeldBack: (reason) => told.push(`${name}: ${reason}`) });
    }
    await turns();
    expect(told.map((text) => text.split(":")[0])).toEqual(["first", "second"]);
    expect(told[0]).toContain("stream muster-dates-reports takes no more");
    full.close();
  });
});
