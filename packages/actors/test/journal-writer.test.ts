/** Who writes the journal: when it leaves a snapshot, and how long it puts up with those who write there and are no controllers. */
import { silentLogger } from "@muster/base";
import { type ControllerEvent, planOf } from "@muster/machines/controller";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { JournalWriter } from "../src/controller/journal-writer.ts";
import { type Replayed, replayJournal } from "../src/internal.ts";
import { clock } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";
import { WrittenJournal } from "./support/written-journal.ts";

const plan = planOf(smallConfig("never-written"));
const elected: ControllerEvent = { type: "controller.elected", atMs: 1, term: 1 };
const mebibyte = 1024 ** 2;

/** A writer on an empty journal of which so much was read as if there were more. */
async function writing(since: Replayed["since"]) {
  const transport = createMemoryBroker().connect("controller.controller.i1");
  const replayed = await replayJournal(transport.journal(), plan);
  const writer = new JournalWriter({
    ...{ transport, clock, logger: silentLogger, incarnation: "i1", term: 1, rules: { digest: "a", build: "1" } },
    ...{ replayed: { ...replayed, since }, snapshotRecords: 1_000, wallOffsetMs: 0 },
    ...{ told: { upTo: (seq) => seq }, alarm: () => {} },
  });
  const write = () => writer.write({ events: [elected], effects: [], snapshot: replayed.snapshot });
  const kinds = async (): Promise<readonly string[]> => {
    const found: string[] = [];
    for await (const { seq, data } of transport.journal().read(1))
      found.push(decodeRecord(seq, data).part ? "snapshot" : "inputs");
    return found;
  };
  return { write, kinds };
}

describe("a snapshot", () => {
  it("comes with the last of so many records, and then the count begins anew", async () => {
    const { write, kinds } = await writing({ records: 998, bytes: 0 });
    await write();
    expect(await kinds()).toEqual(["inputs"]);
    await write();
    await write();
    expect((await kinds()).slice(-2)).toEqual(["snapshot", "inputs"]);
  });

  it("comes after 64 MiB of records, however few they are", async () => {
    const few = await writing({ records: 1, bytes: 63 * mebibyte });
    await few.write();
    expect(await few.kinds()).toEqual(["inputs"]);
    const many = await writing({ records: 1, bytes: 64 * mebibyte });
    await many.write();
    await many.write();
    expect((await many.kinds()).slice(-2)).toEqual(["snapshot", "inputs"]);
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
      await journal.reign([]);
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
    await journal.reign(eager);
    const counts = journal.alarms.map((alarm) => Number.parseInt(alarm, 10));
    expect(counts).toEqual([1, 2, 4, 8]);
    expect(journal.alarms[0]).toMatch(/^1 of the journal's records are no controller's .* the first is record \d+: /);
  });
});
