/** Who writes the journal: when it leaves a snapshot, and how long it puts up with those who write there and are no controllers. */
import { MusterError, silentLogger } from "@muster/base";
import { type ControllerEvent, planOf } from "@muster/machines/controller";
import { pack } from "@muster/protocol";
import type { Journal, JournalEntry } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { JournalWriter, type JournalWriterOptions } from "../src/controller/journal-writer.ts";
import { encodeRecord, type Replayed, replayJournal } from "../src/internal.ts";
import { clock } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";
import { WrittenJournal } from "./support/written-journal.ts";

const plan = planOf(smallConfig("never-written"));
const elected: ControllerEvent = { type: "controller.elected", atMs: 1, term: 1 };
const mebibyte = 1024 ** 2;

/** A writer on an empty journal as if something had been read there. */
async function writing(read: Partial<Replayed> = {}) {
  const broker = createMemoryBroker();
  const transport = broker.connect("controller.controller.i1");
  const replayed = { ...(await replayJournal(transport.journal(), plan)), ...read };
  const purged: number[] = [];
  const expected: (string | undefined)[] = [];
  const gate = { isOpen: Promise.resolve() };
  const journal = transport.journal();
  const gated: JournalWriterOptions["transport"] = {
    purge: async (_, beforeSeq) => void purged.push(beforeSeq),
    journal: () => ({
      ...journal,
      append: async (data, expectedSeq, msgId, expectedId) => {
        expected.push(expectedId);
        await gate.isOpen;
        return await journal.append(data, expectedSeq, msgId, expectedId);
      },
    }),
  };
  const writer = new JournalWriter({
    ...{ transport: gated, clock, logger: silentLogger, incarnation: "i1", term: 1 },
    ...{ replayed, rules: { digest: "a", build: "1" }, snapshotRecords: 1_000, wallOffsetMs: 0 },
    ...{ told: { upTo: (seq) => seq }, alarm: () => {} },
  });
  const write = () => writer.write({ events: [elected], effects: [], snapshot: replayed.snapshot });
  const kinds = async (): Promise<readonly string[]> => {
    const found: string[] = [];
    for await (const { seq, data } of transport.journal().read(1))
      found.push(decodeRecord(seq, data).part ? "snapshot" : "inputs");
    return found;
  };
  return { transport, writer, write, kinds, gate, purged, expected };
}

describe("a snapshot", () => {
  it("comes with the last of so many records, and then the count begins anew", async () => {
    const { write, kinds } = await writing({ since: { records: 998, bytes: 0 } });
    await write();
    expect(await kinds()).toEqual(["inputs"]);
    await write();
    await write();
    expect((await kinds()).slice(-2)).toEqual(["snapshot", "inputs"]);
  });

  it("comes after 64 MiB of records, however few they are", async () => {
    const few = await writing({ since: { records: 1, bytes: 63 * mebibyte } });
    await few.write();
    expect(await few.kinds()).toEqual(["inputs"]);
    let recordBytes = 0;
    for await (const { data } of few.transport.journal().read(1)) recordBytes = data.byteLength;
    const many = await writing({ since: { records: 1, bytes: 64 * mebibyte - recordBytes } });
    await many.write();
    await many.write();
    expect((await many.kinds()).slice(-2)).toEqual(["snapshot", "inputs"]);
  });

  it("comes last where a term ends in order, after what was being written, and not where nothing came since the last one", async () => {
    const { writer, write, kinds, gate } = await writing();
    let open = (): void => {};
    gate.isOpen = new Promise((resolve) => {
      open = resolve;
    });
    const writes = write();
    const ends = writer.end();
    open();
    await Promise.all([writes, ends]);
    expect(await kinds()).toEqual(["inputs", "snapshot"]);
    await writer.end();
    expect(await kinds()).toHaveLength(2);
    const idle = await writing();
    await idle.writer.end();
    expect(await idle.kinds()).toEqual([]);
  });

  it("has what it covers removed with the next record: once, and not where nothing lies before it", async () => {
    const old = await writing({ snapshotSeq: 5, firstSeq: 2 });
    for (let i = 0; i < 3; i++) await old.write();
    expect(old.purged).toEqual([5]);
    const first = await writing({ snapshotSeq: 5, firstSeq: 5 });
    await first.write();
    expect(first.purged).toEqual([]);
    const none = await writing({ snapshotSeq: null, firstSeq: 1 });
    await none.write();
    expect(none.purged).toEqual([]);
  });
});

describe("a record", () => {
  it("is stored behind the one that its writer knows, and nowhere else", async () => {
    const { write, expected } = await writing();
    for (let i = 0; i < 3; i++) await write();
    expect(expected).toEqual([undefined, "i1.1", "i1.2"]);
  });
});

describe("who finds the place of its next record taken", () => {
  const noise = (seq: number, msgId = `noise.${seq}`): JournalEntry => ({ seq, msgId, data: Uint8Array.of(193) });
  const own: JournalEntry = noise(1, "i1.1");
  const of = (by: string, term: number, after: number): JournalEntry => {
    const event: ControllerEvent = { type: "controller.elected", atMs: 1, term };
    return { seq: 2, msgId: `${by}.2`, data: encodeRecord(term, [event], 1, { by, after }) };
  };
  const unnamed: JournalEntry = { seq: 2, msgId: "x", data: encodeRecord(1, [elected], 1) };
  const later: JournalEntry = { seq: 2, msgId: "x", data: pack({ v: 9, term: 1 }) };

  /** A writer of term 2 whose second record meets what is `found` in the journal. @returns Where its record came. */
  async function meets(found: readonly JournalEntry[]): Promise<number> {
    const replayed = await replayJournal(createMemoryBroker().connect("controller.controller.i1").journal(), plan);
    const places: number[] = [];
    let isTaken = false;
    const journal: Journal = {
      head: async () => found.length,
      append: async (_, expectedSeq) => {
        if (places.length === 1 && !isTaken) {
          isTaken = true;
          throw new MusterError("MUSTER_ERR_FENCED", "taken", { retryable: false, params: {} });
        }
        places.push(expectedSeq + 1);
        return expectedSeq + 1;
      },
      async *read() {
        yield* found;
      },
    };
    const writer = new JournalWriter({
      ...{ transport: { purge: async () => {}, journal: () => journal }, clock, logger: silentLogger },
      ...{ incarnation: "i1", term: 2, replayed, rules: { digest: "a", build: "1" }, snapshotRecords: 1_000 },
      ...{ wallOffsetMs: 0, told: { upTo: (seq: number) => seq }, alarm: () => {} },
    });
    const write = () => writer.write({ events: [elected], effects: [], snapshot: replayed.snapshot });
    await write();
    await write();
    return places.at(-1) ?? 0;
  }

  it.each([
    ["what nobody can read", [own, noise(2)], 3],
    ["several of those", [own, noise(2), noise(3)], 4],
    ["a record that names no writer", [own, unnamed], 3],
    ["a controller of a term before, that acts no more", [own, of("i2", 1, 9)], 3],
    ["what says that it is of itself, and is not the next one", [own, of("i1", 2, 9)], 3],
  ])("comes behind %s", async (_, found, place) => {
    expect(await meets(found)).toBe(place);
  });

  it.each([
    ["another one has its own last place: the broker lost the end of the journal", [noise(1, "i2.1"), noise(2)]],
    ["its own last record was removed, which only controllers do", [noise(2)]],
    ["one between is missing", [own, noise(3)]],
    ["nothing is there after all", [own]],
    ["the next controller follows it", [own, of("i2", 3, 1)]],
    ["the middle of somebody's term is there", [own, of("i2", 3, 9)]],
    ["another controller of its own term is there", [own, of("i2", 2, 9)]],
    ["a record is there that a later version wrote", [own, later]],
  ])("gives way where %s", async (_, found) => {
    await expect(meets(found)).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
  });
});

describe("somebody who is no controller", () => {
  it("may come between two records 64 times, and then the writer gives way", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 1_000 });
    const between = async (most: number): Promise<number> => {
      let times = 0;
      journal.mishap = async (call) => {
        if (call !== "append" || times === most) return;
        times += 1;
        const records = journal.transport.journal();
        const seq = await records.head();
        await records.append(Uint8Array.of(193), seq, `noise.${seq + 1}`);
      };
      await journal.writeTerm([]);
      return times;
    };
    expect(await between(64)).toBe(64);
    await expect(between(65)).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
  });

  it("is told of at the first record, the second, the fourth and so on, and not at each", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 1_000 });
    let isNext = false;
    journal.mishap = async (call) => {
      if (call !== "append" || !isNext) return;
      isNext = false;
      const records = journal.transport.journal();
      const seq = await records.head();
      await records.append(Uint8Array.of(193), seq, `noise.${seq + 1}`);
    };
    const tick: ControllerEvent = { type: "controller.tick", atMs: 1 };
    const batches = Array.from({ length: 9 }, () => [tick]);
    // A hand in each batch: it is asked for as the batch is taken.
    const eager = batches.map((batch) =>
      Object.defineProperty([...batch], "map", {
        value: (...given: Parameters<typeof batch.map>) => {
          isNext = true;
          return batch.map(...given);
        },
      }),
    );
    await journal.writeTerm(eager);
    const counts = journal.alarms.map((alarm) => Number.parseInt(alarm, 10));
    expect(counts).toEqual([1, 2, 4, 8]);
    expect(journal.alarms[0]).toMatch(/^1 of the journal's records are no controller's .* the first is record \d+: /);
  });

  it("is told of as it is met: by who takes over, between two records, and in the middle of a snapshot, which is whole all the same", async () => {
    const noise = async (journal: WrittenJournal): Promise<void> => {
      const records = journal.transport.journal();
      const seq = await records.head();
      await records.append(Uint8Array.of(193), seq, `noise.${seq + 1}`);
    };
    const found = new WrittenJournal(plan, { snapshotRecords: 1_000 });
    await found.writeTerm([]);
    await noise(found);
    expect(found.alarms).toEqual([]);
    await found.writeTerm([]);
    expect(found.alarms).toHaveLength(1);
    for (const [which, snapshotRecords] of [
      [1, 1_000],
      [3, 1],
    ] as const) {
      const met = new WrittenJournal(plan, { snapshotRecords, partBytes: 2_000 });
      let appends = 0;
      met.mishap = (call) => (call === "append" && ++appends === which ? noise(met) : undefined);
      await met.writeTerm([]);
      expect(met.alarms).toHaveLength(1);
      const { snapshotSeq, term } = await met.replay();
      expect([term, snapshotSeq !== null]).toEqual([1, snapshotRecords === 1]);
    }
  });
});
