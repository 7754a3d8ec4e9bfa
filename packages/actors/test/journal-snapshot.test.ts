import { type ControllerEvent, controllerLogic, planOf } from "@muster/machines/controller";
import { pack } from "@muster/protocol";
import type { Journal } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { decodeRecord, decodeSnapshot, PartCollector } from "../src/controller/index.ts";
import { encodePart, encodeRecord, encodeSnapshot, partsOf, replayJournal, snapshotVersion } from "../src/internal.ts";
import { plain } from "./support/proofs.ts";
import { smallConfig } from "./support/small-config.ts";
import { WrittenJournal } from "./support/written-journal.ts";

vi.setConfig({ testTimeout: 60_000 });

const plan = planOf(smallConfig("never-written"));

const ids = ["policy-0", "policy-1", "rollout-0", "checkpoint-0"] as const;
const sections = ["weights", "optimizer"].map((name) => ({ name, bytes: 4, digest: "0".repeat(32) }));

const about = fc.record({ from: fc.constantFrom(...ids), life: fc.integer({ min: 1, max: 3 }), atMs: fc.nat(200_000) });
const report = (type: string, body: (role: string) => object) =>
  about.map(({ from, life, atMs }) => {
    const role = from.split("-")[0] ?? "";
    return { type, atMs, from, role, incarnation: `${from}-i${life}`, body: body(role) } as ControllerEvent;
  });
const verdict = (type: string) =>
  about.map(
    ({ from, life, atMs }) => ({ type, atMs, id: from, incarnation: `${from}-i${life}`, evidence: "so" }) as never,
  );

/** Inputs of every sort, in any order: most of them from lives that the controller knows or knew. */
const input: fc.Arbitrary<ControllerEvent> = fc.oneof(
  { weight: 4, arbitrary: report("replica.register", (role) => ({ role, host: "h", pid: 1, engineBuild: "b" })) },
  {
    weight: 3,
    arbitrary: report("weights.held", () => ({ ...held(0), addresses: ["unix:x"] })),
  },
  report("mesh.built", () => ({ epoch: 1 })),
  report("replica.draining", () => ({ reason: "asked" })),
  report("replica.left", () => ({ reason: "asked" })),
  verdict("verdict.suspect"),
  verdict("verdict.recover"),
  verdict("verdict.dead"),
  fc.nat(400_000).map((atMs): ControllerEvent => ({ type: "controller.tick", atMs })),
);
const batches = fc.array(fc.array(input, { minLength: 1, maxLength: 4 }), { maxLength: 30 });

function held(version: number): object {
  return { lineage: 0, version, sections, bytes: 8, durationMs: 1 };
}

/** All that a replay comes to, as plain data: what a controller goes on from. */
function whole({ snapshot, ...rest }: Pick<Awaited<ReturnType<typeof replayJournal>>, "snapshot">): unknown {
  return { snapshot: plain(snapshot), ...rest };
}

async function expectSame(journal: WrittenJournal): Promise<void> {
  const { snapshot, timers, untold, incidents, term } = await journal.replay();
  expect(whole({ snapshot, timers, untold, incidents, term } as never)).toEqual(whole(journal.fold()));
}

describe("a journal with snapshots", () => {
  it("replays to exactly what all inputs come to, whatever they are, and whoever wrote how many of them", async () => {
    let snapshots = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(batches, { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 12 }),
        fc.constantFrom(200, 1_500, 100_000),
        fc.constantFrom(1, 2, Number.POSITIVE_INFINITY),
        async (terms, snapshotRecords, partBytes, toldAfter) => {
          const journal = new WrittenJournal(plan, { snapshotRecords, partBytes });
          journal.toldUpTo = (seq) => Math.floor(seq / toldAfter);
          for (const term of terms) await journal.writeTerm(term);
          snapshots += journal.parts.length;
          await expectSame(journal);
        },
      ),
      { numRuns: 40 },
    );
    expect(snapshots).toBeGreaterThan(100);
  });

  it("holds a snapshot and fewer records of inputs than there are to the next, however long it goes on", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 10, partBytes: 1_000 });
    for (let term = 1; term <= 40; term++) await journal.writeTerm(manyTicks(7));
    const left = await journal.left();
    const parts = left.filter((seq) => journal.parts.includes(seq));
    expect(parts.length).toBeGreaterThan(1);
    expect(left.slice(0, parts.length)).toEqual(parts);
    expect(left.length - parts.length).toBeLessThan(10);
    expect(journal.inputs).toHaveLength(40 * 8);
    expect(left.at(-1)).toBe(journal.inputs.length + journal.parts.length);
    await expectSame(journal);
  });

  it("is snapshotted by those who end before there are enough records for one, too", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 10 });
    for (let term = 1; term <= 25; term++) await journal.writeTerm([]);
    expect(journal.parts).toEqual([11, 22]);
    expect(await journal.left()).toEqual([22, 23, 24, 25, 26, 27]);
  });

  it("is snapshotted before its stream is full when its records are few and large", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 10_000 });
    const large = { type: "controller.tick", atMs: 1, filler: "x".repeat(1_000_000) } as ControllerEvent;
    await journal.writeTerm(Array.from({ length: 70 }, () => [large]));
    expect(journal.parts).toHaveLength(1);
    expect((await journal.left()).length).toBeLessThan(10);
  });
});

/** Batches that leave records and come to nothing. */
function manyTicks(count: number): readonly (readonly ControllerEvent[])[] {
  return Array.from({ length: count }, (_, i) => [{ type: "controller.tick", atMs: i }]);
}

describe("a controller that ends in the middle of a snapshot", () => {
  /** Ends the process at the `nth` call of a kind once snapshots have begun. */
  const endAt = (nth: number, at: string) => {
    let calls = 0;
    return (call: string): void => {
      if (call === at && ++calls === nth) throw new Error("killed");
    };
  };

  it.each(["append", "append.done"])("leaves a journal that the next one goes on from, at every %s", async (at) => {
    const quiet = new WrittenJournal(plan, { snapshotRecords: 5, partBytes: 600 });
    const work = manyTicks(11);
    await quiet.writeTerm(work);
    const appends = quiet.inputs.length + quiet.parts.length;
    expect(quiet.parts.length).toBeGreaterThan(6);
    for (let nth = 1; nth <= appends; nth++) {
      const journal = new WrittenJournal(plan, { snapshotRecords: 5, partBytes: 600 });
      journal.mishap = endAt(nth, at);
      await expect(journal.writeTerm(work)).rejects.toThrow("killed");
      await expectSame(journal);
      journal.mishap = () => {};
      await journal.writeTerm(work);
      await expectSame(journal);
      const left = await journal.left();
      expect(left.filter((seq) => !journal.parts.includes(seq)).length, `killed at ${at} ${nth}`).toBeLessThan(5);
    }
  });

  it("or before the purge leaves more records than needed, which the next one removes", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 5 });
    journal.mishap = (call) => {
      if (call === "purge") throw new Error("killed");
    };
    await journal.writeTerm(manyTicks(6));
    expect(await journal.left()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    await expectSame(journal);
    journal.mishap = () => {};
    await journal.writeTerm([]);
    expect(await journal.left()).toEqual([6, 7, 8, 9]);
  });

  it("never asks anything away before the last part is stored", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 3, partBytes: 500 });
    const calls: string[] = [];
    journal.mishap = (call) => void calls.push(call);
    await journal.writeTerm(manyTicks(2));
    expect(journal.parts.length).toBeGreaterThan(3);
    expect(calls.indexOf("purge")).toBe(calls.length - 1);
    expect(calls.filter((call) => call === "append.done")).toHaveLength(3 + journal.parts.length);
  });
});

describe("the replay of a journal with snapshots", () => {
  const content = { state: { term: 7 }, phase: "gathering", timers: [], untold: [], incidents: {} } as never;
  const bytes = encodeSnapshot(content);

  async function journalOf(records: readonly Uint8Array[], purgedSeq = 1): Promise<Journal> {
    const transport = createMemoryBroker().connect("controller.controller.i1");
    for (const [at, record] of records.entries()) await transport.journal().append(record, at, `r${at}`);
    await transport.purge("journal", purgedSeq);
    return transport.journal();
  }
  const partsAt = (firstSeq: number, partBytes = 40): readonly Uint8Array[] =>
    partsOf(bytes, firstSeq, partBytes).map((part) => encodePart(3, part, 5));
  const elected = encodeRecord(4, [{ type: "controller.elected", atMs: 1, term: 4 }], 6);

  it("refuses a journal whose beginning is gone and that has no whole snapshot", async () => {
    const code = { code: "MUSTER_ERR_JOURNAL_HEADLESS" };
    await expect(replayJournal(await journalOf([elected, elected], 2), plan)).rejects.toMatchObject({
      ...code,
      params: { first: 2 },
    });
    const half = [elected, ...partsAt(2).slice(0, -1), elected];
    await expect(replayJournal(await journalOf(half, 2), plan)).rejects.toMatchObject(code);
    const headless = partsAt(1).slice(1);
    await expect(replayJournal(await journalOf([elected, ...headless], 2), plan)).rejects.toMatchObject(code);
    await expect(replayJournal(await journalOf([elected], 2), plan)).rejects.toMatchObject({ params: { first: 2 } });
  });

  it("passes over a snapshot that is not what its digest says", async () => {
    const parts = partsOf(bytes, 2, 40).map((part, i) => (i === 1 ? { ...part, data: part.data.toReversed() } : part));
    const records = [elected, ...parts.map((part) => encodePart(4, part))];
    expect(await replayJournal(await journalOf(records), plan)).toMatchObject({ term: 4, snapshotSeq: null });
  });

  it("takes the newest whole snapshot, and none that is put together from two", async () => {
    const first = partsAt(1);
    const second = partsAt(first.length + 1);
    const mixed = [...first.slice(0, 2), ...second.slice(2)];
    await expect(replayJournal(await journalOf([elected, ...mixed], 2), plan)).rejects.toMatchObject({
      code: "MUSTER_ERR_JOURNAL_HEADLESS",
    });
    const replayed = await replayJournal(await journalOf([...first, ...second]), plan);
    expect(replayed).toMatchObject({ snapshotSeq: first.length + 1, firstSeq: 1, term: 3 });
    expect(replayed.snapshot.context.state.term).toBe(7);
  });

  it("reads again when an acting controller has removed what it was about to read", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 4 });
    await journal.writeTerm(manyTicks(2));
    let readings = 0;
    const late: Journal = {
      ...journal.transport.journal(),
      async *read(fromSeq) {
        const records = journal.transport.journal().read(fromSeq)[Symbol.asyncIterator]();
        // The head of this reading is known from here on.
        const first = await records.next();
        if (++readings === 1) await journal.writeTerm(manyTicks(1));
        else if (!first.done) yield first.value;
        for (let next = await records.next(); !next.done; next = await records.next()) yield next.value;
      },
    };
    const replayed = await replayJournal(late, plan);
    expect(readings).toBe(2);
    expect(replayed).toMatchObject({ firstSeq: 5, snapshotSeq: 5, term: 2, seq: 6 });
  });

  it("goes on from a snapshot whose forerunners are removed while they are read", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 4 });
    journal.mishap = (call) => {
      if (call === "purge") throw new Error("not yet");
    };
    await journal.writeTerm(manyTicks(5));
    const early: Journal = {
      ...journal.transport.journal(),
      async *read(fromSeq) {
        for await (const record of journal.transport.journal().read(fromSeq)) {
          yield record;
          if (record.seq === 2) await journal.transport.purge("journal", 5);
        }
      },
    };
    const { snapshot, seq, firstSeq, snapshotSeq } = await replayJournal(early, plan);
    expect({ seq, firstSeq, snapshotSeq }).toEqual({ seq: 7, firstSeq: 1, snapshotSeq: 5 });
    expect(plain(snapshot)).toEqual(plain(journal.fold().snapshot));
  });

  it("refuses records and snapshots of versions that it does not know, and says which it knows", async () => {
    expect(() => decodeRecord(9, pack({ v: 3, term: 1, wonder: true }))).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_JOURNAL_VERSION",
        message: expect.stringContaining("record 9 of the journal has version 3, and this program reads 1 and 2"),
      }),
    );
    const other = Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(bytes).toString()), v: snapshotVersion + 1 }));
    const parts = partsOf(other, 1, 1_000).map((part) => encodePart(1, part));
    await expect(replayJournal(await journalOf(parts), plan)).rejects.toMatchObject({
      code: "MUSTER_ERR_JOURNAL_VERSION",
      params: { what: "the snapshot of record 1", found: snapshotVersion + 1, known: snapshotVersion },
    });
  });

  it("refuses a whole snapshot that can not be read", () => {
    expect(() => decodeSnapshot(4, Uint8Array.of(0xff))).toThrow("journal record 4 can not be read");
    const whole = { state: {}, phase: "gathering", timers: [], untold: [], incidents: {} };
    const bytes = (patch: object) => Buffer.from(JSON.stringify({ v: 3, ...whole, ...patch }));
    expect(decodeSnapshot(4, bytes({}))).toEqual(whole);
    // A text with a byte in it that is no UTF-8.
    const torn = bytes({ phase: "~" }).map((byte) => (byte === 0x7e ? 0xff : byte));
    expect(() => decodeSnapshot(4, torn)).toThrow("journal record 4 can not be read");
    expect(() => decodeSnapshot(4, bytes({ phase: 3 }))).toThrow(/^journal record 4 can not be read: (?!invalid$)/);
    expect(() => decodeSnapshot(4, Buffer.from(JSON.stringify({ v: snapshotVersion, state: {} })))).toThrow(
      "journal record 4 can not be read",
    );
  });
});

describe("the form of a snapshot", () => {
  // A snapshot of other tables can not be gone on from: whoever changes this list raises the version.
  it("has the version that belongs to the controller's tables", () => {
    const { state } = controllerLogic.init(plan).snapshot.context;
    const fields = Object.entries(state).flatMap(([name, value]) =>
      name === "plan" || typeof value !== "object" || value === null || Array.isArray(value)
        ? [name]
        : [name, ...Object.keys(value).map((key) => `${name}.${key}`)],
    );
    expect({ snapshotVersion, fields: fields.join(" ") }).toMatchInlineSnapshot(`
      {
        "fields": "plan term nowMs joins leasesMade engineBuild members gone evictions waiting progress progress.atMs progress.stage progress.isShort restore restore.lineage restore.version restore.source tensorsDigest weights mesh mesh.epoch mesh.members mesh.state mesh.joins mesh.built mesh.dueAtMs mesh.joinDueAtMs step step.step step.attempt step.failures step.state step.votes step.startedAtMs step.dueAtMs applied groups history purgedSeq leases sampled sampled.groups sampled.tokens evaluation evaluatedVersion checkpoints checkpoints.wantedStep checkpoints.dueAtMs checkpoints.saved checkpoints.failures fallback fallback.older fallback.damaged fallback.covered ledger ledger.admitted ledger.trained ledger.aborted ledger.quarantined paces shortages dropped dropped.duplicate dropped.stale givenUp givenUp.recent givenUp.run givenUp.causes givenUp.alarmed nonFiniteInRow wentBackAt ending endDueAtMs stopped fleet fleet.wanted fleet.replicas fleet.nodes fleet.cordoned fleet.made fleet.revision fleet.shortage fleet.commands fleet.commandsMade",
        "snapshotVersion": 3,
      }
    `);
  });
});

describe("the parts of a snapshot", () => {
  it("are read as they were written, and together are the snapshot", () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
    const parts = partsOf(bytes, 5, 30);
    expect(parts.map(({ data }) => data.byteLength)).toEqual([30, 30, 30, 10]);
    const read = parts.map((part, i) => decodeRecord(5 + i, encodePart(2, part, 7)));
    expect(read.map(({ term, wallMs, events }) => ({ term, wallMs, events }))).toEqual(
      parts.map(() => ({ term: 2, wallMs: 7, events: [] })),
    );
    const collector = new PartCollector();
    const taken = read.map(({ part }, i) => part && collector.take(5 + i, part));
    expect(taken.slice(0, -1)).toEqual([null, null, null]);
    expect(Uint8Array.from(taken.at(-1) ?? [])).toEqual(bytes);
  });
});
