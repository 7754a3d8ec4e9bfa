/** The journal: one writer, no gaps, no doubt. */
import type { Journal } from "@muster/transport";
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { bytes, text } from "./helpers.ts";

export function testJournal(actors: () => Actors): void {
  test("an empty journal has head 0 and nothing to read", async () => {
    expect(await actors().controller.journal().head()).toBe(0);
    expect(await collect(actors().controller.journal(), 1)).toEqual([]);
  });

  test("records are appended one after another and read back from any sequence", async () => {
    const journal = actors().controller.journal();
    for (const seq of [0, 1, 2]) expect(await journal.append(bytes(`r${seq + 1}`), seq, `t1/${seq}`)).toBe(seq + 1);
    expect(await journal.head()).toBe(3);
    expect(await collect(actors().controller.journal(), 1)).toEqual(["1:r1", "2:r2", "3:r3"]);
    expect(await collect(actors().controller.journal(), 3)).toEqual(["3:r3"]);
    expect(await collect(actors().controller.journal(), 4)).toEqual([]);
  });

  test("an append on an old head is fenced and leaves no trace", async () => {
    const journal = actors().controller.journal();
    await journal.append(bytes("mine"), 0, "t2/0");
    await expect(journal.append(bytes("zombie"), 0, "t1/0")).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
    expect(await collect(actors().controller.journal(), 1)).toEqual(["1:mine"]);
  });

  test("an append behind records that the broker has lost says so, and is not taken for a lost race", async () => {
    const journal = actors().controller.journal();
    await journal.append(bytes("kept"), 0, "t1/0");
    const error = { code: "MUSTER_ERR_JOURNAL_CUT", params: { last: 1, acknowledged: 5 }, retryable: false };
    await expect(journal.append(bytes("after the gap"), 5, "t1/5")).rejects.toMatchObject(error);
    expect(await collect(actors().controller.journal(), 1)).toEqual(["1:kept"]);
  });

  test("an append behind a record that is not the one its writer knows is fenced, though the sequence is that one's", async () => {
    const journal = actors().controller.journal();
    await journal.append(bytes("r1"), 0, "t1/0");
    await journal.append(bytes("r2"), 1, "t1/1", "t1/0");
    // Of a writer whose second record was lost, and written anew by another one.
    const error = { code: "MUSTER_ERR_FENCED", params: { seq: 2 } };
    await expect(journal.append(bytes("zombie"), 2, "t0/2", "t0/1")).rejects.toMatchObject(error);
    await journal.append(bytes("r3"), 2, "t1/2", "t1/1");
    expect(await journal.append(bytes("r3"), 2, "t1/2", "t1/1")).toBe(3);
    const read: string[] = [];
    for await (const { seq, msgId } of journal.read(2)) read.push(`${seq}:${msgId}`);
    expect(read).toEqual(["2:t1/1", "3:t1/2"]);
  });

  test("an append that is repeated because its answer was lost gives the same sequence", async () => {
    const journal = actors().controller.journal();
    expect(await journal.append(bytes("a"), 0, "t1/0")).toBe(1);
    expect(await journal.append(bytes("a"), 0, "t1/0")).toBe(1);
    expect(await journal.head()).toBe(1);
  });

  test("of two writers on one head exactly one wins", async () => {
    const journal = actors().controller.journal();
    const results = await Promise.allSettled(["a", "b", "c"].map((id) => journal.append(bytes(id), 0, id)));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await journal.head()).toBe(1);
  });
}

export function testJournalReading(actors: () => Actors): void {
  test("a long journal is read completely, and only to the head as of the call", async () => {
    const journal = actors().controller.journal();
    const count = 600;
    for (let seq = 0; seq < count; seq++) await journal.append(bytes("x"), seq, `t1/${seq}`);
    const seqs: number[] = [];
    for await (const { seq } of journal.read(1)) {
      if (seq === 1) await journal.append(bytes("later"), count, "later");
      seqs.push(seq);
    }
    expect(seqs).toEqual(Array.from({ length: count }, (_, i) => i + 1));
  });

  test("a purged journal is read from its first record", async () => {
    const { controller } = actors();
    for (const seq of [0, 1, 2]) await controller.journal().append(bytes(`r${seq + 1}`), seq, `t1/${seq}`);
    await controller.purge("journal", 3);
    expect(await collect(actors().controller.journal(), 1)).toEqual(["3:r3"]);
    await controller.purge("journal", 4);
    expect(await collect(actors().controller.journal(), 1)).toEqual([]);
    expect(await controller.journal().head()).toBe(3);
  });
}

export function testJournalPurging(actors: () => Actors): void {
  test("records that are purged while the journal is read are left out, and the rest is read to the head", async () => {
    const { controller } = actors();
    const count = 600;
    for (let seq = 0; seq < count; seq++) await controller.journal().append(bytes("x"), seq, `t1/${seq}`);
    const seqs: number[] = [];
    for await (const { seq } of controller.journal().read(1)) {
      if (seq === 10) await controller.purge("journal", 550);
      seqs.push(seq);
    }
    // What was on its way already may still come, but nothing comes twice or out of order.
    expect(seqs.slice(0, 10)).toEqual(Array.from({ length: 10 }, (_, i) => i + 1));
    expect(seqs.slice(-51)).toEqual(Array.from({ length: 51 }, (_, i) => 550 + i));
    expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b));
    expect(seqs.length).toBeLessThan(count);
  });

  test("a writer goes on after its own purge, and one with an older head is fenced by records that are gone", async () => {
    const { controller } = actors();
    const journal = controller.journal();
    for (const seq of [0, 1, 2]) await journal.append(bytes(`r${seq + 1}`), seq, `t1/${seq}`);
    await controller.purge("journal", 3);
    await expect(journal.append(bytes("zombie"), 1, "t0/1")).rejects.toMatchObject({ code: "MUSTER_ERR_FENCED" });
    expect(await journal.append(bytes("r4"), 3, "t1/3")).toBe(4);
    expect(await collect(journal, 1)).toEqual(["3:r3", "4:r4"]);
  });
}

/** Reads a journal as `seq:text`. */
async function collect(journal: Journal, fromSeq: number): Promise<readonly string[]> {
  const records: string[] = [];
  for await (const { seq, data } of journal.read(fromSeq)) records.push(`${seq}:${text(data)}`);
  return records;
}
