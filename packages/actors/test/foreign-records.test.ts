/** What somebody else puts into the journal, with whatever credentials, counts for nothing and ends nobody. */
import { type ControllerEvent, planOf } from "@muster/machines/controller";
import { pack } from "@muster/protocol";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { encodePart, encodeRecord, partsOf, replayJournal } from "../src/internal.ts";
import { plain } from "./support/proofs.ts";
import { smallConfig } from "./support/small-config.ts";
import { WrittenJournal } from "./support/written-journal.ts";

vi.setConfig({ testTimeout: 60_000 });

const plan = planOf(smallConfig("never-written"));
const tick = (atMs: number): ControllerEvent => ({ type: "controller.tick", atMs });
const elected = (term: number): ControllerEvent => ({ type: "controller.elected", atMs: 7, term });
const ticks = (count: number) => Array.from({ length: count }, (_, i) => [tick(100 + i)]);

/** What somebody may put there after record `seq`; `last` is the newest record. */
const forgeries: Readonly<Record<string, (seq: number, last: Uint8Array) => Uint8Array>> = {
  noise: () => Uint8Array.of(193),
  "another message": () => pack({ hello: "there" }),
  "a record without a writer": () => encodeRecord(1, [tick(1e12)], 5),
  "a record of a writer that does not act": (seq) => encodeRecord(0, [tick(1e12)], 5, { by: "x", after: seq }),
  "a term of somebody else that builds on another record": () =>
    encodeRecord(99, [elected(99)], 5, { by: "x", after: 999 }),
  "a copy of the newest record": (_, last) => last,
  "a version to come that builds on another record": () => pack({ v: 9, term: 1, by: "x", after: 999 }),
  "a snapshot": (seq) =>
    encodePart(0, partsOf(Buffer.from("{}"), seq + 1, 100)[0] as never, 5, { by: "x", after: seq }),
};

/** What whoever acts can not tell from the middle of a later term. */
const mayBeTerm = (name: string): boolean => name.startsWith("a term") || name.startsWith("a version");

async function put(journal: WrittenJournal, name: string): Promise<void> {
  const records = journal.transport.journal();
  const seq = await records.head();
  let last = Uint8Array.of(193);
  for await (const { data } of records.read(seq)) last = Uint8Array.from(data);
  await records.append(forgeries[name]?.(seq, last) ?? last, seq, `forged.${seq + 1}`);
}

async function expectSame(journal: WrittenJournal): Promise<void> {
  const { snapshot, timers, untold, incidents, term } = await journal.replay();
  const found = { snapshot: plain(snapshot), timers, untold, incidents, term };
  const { snapshot: wanted, ...rest } = journal.fold();
  expect(found).toEqual({ snapshot: plain(wanted), ...rest });
}

describe.each(Object.keys(forgeries))("%s in the journal", (name) => {
  it("is passed over by whoever writes, and by whoever takes over, and the operator hears of it", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 1_000 });
    await journal.writeTerm(ticks(3));
    await put(journal, name);
    let appends = 0;
    journal.mishap = (call) => (call === "append" && ++appends === 3 ? put(journal, name) : undefined);
    // Who doubts gives way; whoever comes next sees that it is no term.
    const isTerm = mayBeTerm(name);
    if (isTerm) await expect(journal.writeTerm(ticks(3))).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
    await journal.writeTerm(ticks(isTerm ? 1 : 3));
    await expectSame(journal);
    expect(journal.inputs).toHaveLength(8);
    expect(journal.alarms[0]).toMatch(/^1 of the journal's records are no controller's .*; the first is record 5: /);
    expect(journal.alarms[1]).toMatch(/^2 of the journal's records/);
  });
});

describe("a journal into which somebody writes again and again", () => {
  it("comes to what the controllers wrote, whatever lies between and in the middle of snapshots", async () => {
    const kinds = Object.keys(forgeries).filter((name) => !mayBeTerm(name));
    const names = fc.constantFrom(...kinds, null, null);
    await fc.assert(
      fc.asyncProperty(fc.array(names, { maxLength: 60 }), fc.constantFrom(200, 1_500), async (plot, partBytes) => {
        const journal = new WrittenJournal(plan, { snapshotRecords: 5, partBytes });
        const left = [...plot];
        journal.mishap = (call) => {
          const name = call === "append" ? left.shift() : null;
          return name ? put(journal, name) : undefined;
        };
        for (let term = 1; term <= 4; term++) await journal.writeTerm(ticks(4));
        await expectSame(journal);
      }),
      { numRuns: 40 },
    );
  });

  it("gives way to a controller that begins the next term, however much lies before that", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 1_000 });
    let appends = 0;
    journal.mishap = async (call) => {
      if (call !== "append" || ++appends !== 3) return;
      await put(journal, "noise");
      const other = await replayJournal(journal.transport.journal(), plan);
      const record = encodeRecord(other.term + 1, [elected(other.term + 1)], 5, other.chain.link("c2"));
      await journal.transport.journal().append(record, other.seq, "c2.1");
    };
    await expect(journal.writeTerm(ticks(5))).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
    expect(journal.inputs).toHaveLength(2);
  });

  it.each([1, 2])(
    "is left to whoever acts in term %i or later, also when the broker has lost how that one began",
    async (ahead) => {
      const journal = new WrittenJournal(plan, { snapshotRecords: 1_000 });
      let appends = 0;
      journal.mishap = async (call) => {
        if (call !== "append" || ++appends !== 4) return;
        // The end was lost, and another controller has written over it and beyond it: its first record is behind what this one looks at.
        const link = { by: "c2", after: 2 };
        await journal.transport.journal().append(encodeRecord(ahead, [tick(9)], 5, link), 3, "c2.4");
      };
      await expect(journal.writeTerm(ticks(5))).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
      expect(journal.inputs).toHaveLength(3);
    },
  );

  it("is given up by a writer between each of whose tries somebody comes", async () => {
    const journal = new WrittenJournal(plan, { snapshotRecords: 1_000 });
    let appends = 0;
    journal.mishap = (call) => (call === "append" && ++appends > 2 ? put(journal, "noise") : undefined);
    await expect(journal.writeTerm(ticks(3))).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
    expect(appends).toBe(2 + 65);
    expect(journal.alarms.length).toBeLessThan(9);
  });
});
