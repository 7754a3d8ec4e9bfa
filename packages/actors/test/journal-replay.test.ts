import { ettrOf, type TimerEffect } from "@muster/machines";
import { type ControllerEvent, controllerLogic, planOf } from "@muster/machines/controller";
import { pack } from "@muster/protocol";
import { createMemoryBroker } from "@muster/transport/internal";
import { beforeEach, describe, expect, it } from "vitest";
import { type ControllerLogic, decodeRecord } from "../src/controller/index.ts";
import { encodeRecord, replayJournal } from "../src/internal.ts";
import { plain } from "./support/proofs.ts";
import { smallConfig } from "./support/small-config.ts";

const plan = planOf(smallConfig("never-written"));

const elected = (term: number): ControllerEvent => ({ type: "controller.elected", atMs: term * 10, term });
const joining = (id: string): ControllerEvent => ({
  type: "replica.register",
  atMs: 1,
  from: id,
  role: "checkpoint",
  incarnation: `${id}-i1`,
  body: { role: "checkpoint", host: "h", pid: 1, engineBuild: "" },
});

describe("a record of the journal", () => {
  it("is read as it was written", () => {
    const events = [elected(2), joining("checkpoint-0")];
    expect(decodeRecord(9, encodeRecord(2, events))).toEqual({ term: 2, events });
    expect(decodeRecord(9, encodeRecord(2, events, 1_234.5))).toEqual({ term: 2, events, wallMs: 1_234.5 });
    expect(decodeRecord(9, encodeRecord(2, events, 1, { told: 7 }))).toEqual({ term: 2, events, wallMs: 1, told: 7 });
  });

  it.each([
    ["bytes that are no record", Uint8Array.of(193, 193)],
    ["inputs said to be a part of a snapshot", pack({ v: 2, term: 1, events: [] })],
    ["no bytes", new Uint8Array()],
    ["a term that is no count", pack({ v: 1, term: -1, events: [] })],
    ["an event without a type", pack({ v: 1, term: 1, events: [{ atMs: 1 }] })],
    ["nothing", pack(null)],
    ["a text", pack("v")],
    ["a version that is no number", pack({ v: "1", term: 1, events: [] })],
    ["a field too many", pack({ v: 1, term: 1, events: [], extra: 1 })],
  ])("is refused with its sequence: %s", (_, data) => {
    expect(() => decodeRecord(9, data)).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_JOURNAL_MALFORMED",
        message: expect.stringMatching(/^journal record 9 can not be read: (?!invalid$)/),
      }),
    );
  });
});

describe("the replay of a journal", () => {
  let journal: ReturnType<ReturnType<ReturnType<typeof createMemoryBroker>["connect"]>["journal"]>;
  let head: number;
  beforeEach(() => {
    journal = createMemoryBroker().connect("controller.controller.i1").journal();
    head = 0;
  });

  async function write(term: number, ...events: readonly ControllerEvent[]): Promise<void> {
    head = await journal.append(encodeRecord(term, events), head, `r${head + 1}`);
  }

  it("of nothing is the beginning", async () => {
    const { snapshot, ...rest } = await replayJournal(journal, plan);
    expect(plain(snapshot)).toEqual(plain(controllerLogic.init(plan).snapshot));
    expect(rest).toMatchObject({ term: 0, seq: 0, records: 0, untold: [] });
  });

  it("is tried five times where the beginning is gone: an acting controller may remove records meanwhile", async () => {
    let readings = 0;
    const headless = {
      head: async () => 7,
      read: (first: number) => {
        readings += 1;
        return journal.read(first);
      },
    };
    await expect(replayJournal(headless as unknown as typeof journal, plan)).rejects.toMatchObject({
      code: "MUSTER_ERR_JOURNAL_HEADLESS",
      params: { first: 8 },
    });
    expect(readings).toBe(5);
  });

  it("folds the events of all records, whatever their batches", async () => {
    const events = [elected(1), joining("checkpoint-0"), joining("checkpoint-1"), elected(2)];
    await write(1, ...events.slice(0, 2));
    await write(1, ...events.slice(2, 3));
    await write(2, ...events.slice(3));
    const folded = events.reduce(
      (at, event) => controllerLogic.step(at, event).snapshot,
      controllerLogic.init(plan).snapshot,
    );
    const replayed = await replayJournal(journal, plan);
    expect(plain(replayed.snapshot)).toEqual(plain(folded));
    expect(replayed).toMatchObject({ term: 2, seq: 3, records: 3 });
  });

  it("stops at a record that can not be read when a controller built on it", async () => {
    const by = "c1";
    head = await journal.append(encodeRecord(1, [elected(1)], 1, { by, after: 0 }), head, "r1");
    head = await journal.append(Uint8Array.of(193), head, "bad");
    expect(await replayJournal(journal, plan)).toMatchObject({ term: 1, seq: 2, records: 1 });
    await journal.append(encodeRecord(1, [joining("checkpoint-0")], 1, { by, after: 2 }), head, "r3");
    await expect(replayJournal(journal, plan)).rejects.toMatchObject({
      code: "MUSTER_ERR_JOURNAL_MALFORMED",
      params: { seq: 2 },
    });
  });

  it("keeps the timers that still run, in their last form, and no other", async () => {
    const start = (id: string, delayMs: number): TimerEffect<ControllerEvent> => ({
      type: "timer.start",
      id,
      delayMs,
      event: elected(9),
    });
    const timers: readonly TimerEffect<ControllerEvent>[][] = [
      [start("kept", 1), start("cancelled", 1)],
      [start("kept", 2), { type: "timer.cancel", id: "cancelled" }, { type: "timer.cancel", id: "unknown" }],
      [start("late", 3)],
    ];
    const logic: ControllerLogic = {
      ...controllerLogic,
      init: (input) => ({ snapshot: controllerLogic.init(input).snapshot, effects: [start("first", 4)] }),
      step: (snapshot, event) => ({ snapshot, effects: timers["term" in event ? event.term - 1 : 0] ?? [] }),
    };
    await write(1, elected(1), elected(2));
    await write(3, elected(3));
    const replayed = await replayJournal(journal, plan, logic);
    expect(replayed.timers).toEqual([start("first", 4), start("kept", 2), start("late", 3)]);
  });

  it("keeps the one watchdog of the state that the job is in", async () => {
    const first = controllerLogic.init(plan).effects.filter(({ type }) => type === "timer.start");
    await write(1, elected(1), joining("checkpoint-0"));
    const { timers } = await replayJournal(journal, plan);
    expect(first).toHaveLength(1);
    expect(timers).toEqual(first);
  });

  it("tells public facts by record and place in it, in order", async () => {
    await write(1, elected(1), joining("checkpoint-0"), joining("checkpoint-1"));
    await write(2, elected(2));
    const { untold } = await replayJournal(journal, plan);
    expect(untold.map(({ seq, id, effect }) => [seq, id, effect.kind])).toEqual([
      [1, "e1.0", "job.started"],
      [1, "e1.1", "member.joined"],
      [1, "e1.2", "member.joined"],
      [2, "e2.0", "job.started"],
    ]);
  });

  it("adds up the incidents of all terms, in the wall time of the records", async () => {
    const announce = (kind: string, body: object): object => ({ type: "announce", kind, body });
    const committed = (step: number): object[] => [announce("step.committed", { step, groups: [] })];
    const joined = announce("member.joined", { id: "policy-0", role: "policy", incarnation: "i1" });
    const said: readonly object[][] = [
      [joined, ...committed(1)],
      committed(2),
      [announce("job.started", { term: 3 })],
      committed(3),
      committed(4),
    ];
    const logic: ControllerLogic = {
      ...controllerLogic,
      step: (snapshot, event) => ({ snapshot, effects: (said["term" in event ? event.term - 1 : 0] ?? []) as never }),
    };
    const wallMs = [1_000, 2_000, 11_500, 12_000, 13_000];
    for (const [at, ms] of wallMs.entries())
      head = await journal.append(encodeRecord(at < 2 ? 1 : 2, [elected(at + 1)], ms), head, `r${at}`);
    const { incidents } = await replayJournal(journal, plan, logic);
    expect(incidents.counts).toEqual({ "controller.changed": 1 });
    // Of the twelve seconds since the first commit the two calm steps, and as much of the third as a calm one takes.
    expect(ettrOf(incidents)).toBeCloseTo(3 / 12);
  });

  it("tells the public facts behind the mark of the last record, and those of the last 64 records in any case", async () => {
    const write = async (term: number, told: number): Promise<void> => {
      head = await journal.append(encodeRecord(term, [elected(term)], 1, { told }), head, `r${head + 1}`);
    };
    const first = async (): Promise<string | undefined> => (await replayJournal(journal, plan)).untold[0]?.id;
    for (let term = 1; term <= 200; term++) await write(term, 0);
    expect((await replayJournal(journal, plan)).untold.map(({ id }) => id)).toEqual(
      Array.from({ length: 200 }, (_, i) => `e${i + 1}.0`),
    );
    await write(201, 90);
    expect(await first()).toBe("e91.0");
    // A new controller says again what was told already: until it has, the mark is lower.
    await write(202, 20);
    expect(await first()).toBe("e91.0");
    await write(203, 202);
    expect(await first()).toBe("e140.0");
  });

  it("tells the public facts of the last 64 records only where no record has a mark", async () => {
    for (let term = 1; term <= 70; term++) await write(term, elected(term));
    const { untold } = await replayJournal(journal, plan);
    expect(untold.map(({ id }) => id)).toEqual(Array.from({ length: 64 }, (_, i) => `e${i + 7}.0`));
  });
});
