/** Which records of the journal are the controllers', and which count for nothing. */
import type { ControllerEvent } from "@muster/machines/controller";
import { pack } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { encodePart } from "../src/controller/journal-record.ts";
import { RecordChain } from "../src/controller/record-chain.ts";
import { encodeRecord } from "../src/internal.ts";

const tick: ControllerEvent = { type: "controller.tick", atMs: 1 };
const elected = (term: number): ControllerEvent => ({ type: "controller.elected", atMs: 1, term });
const noise = Uint8Array.of(193);
const later = pack({ v: 9, term: 1, more: true });

/** A chain on which the controller `i1` has written its first record. */
function begun(): RecordChain {
  const chain = new RecordChain();
  chain.take(1, encodeRecord(1, [elected(1)], 1, { by: "i1", after: 0 }));
  return chain;
}

describe("the next record of controllers, after one of `i1` in term 1,", () => {
  it.each([
    ["is one of the same writer and term", 1, [tick], { by: "i1", after: 1 }],
    ["is the first one of a higher term, of another writer", 2, [elected(2)], { by: "i2", after: 1 }],
    ["is the first one of a higher term, of the same writer", 2, [elected(2)], { by: "i1", after: 1 }],
  ])("%s", (_, term, events, head) => {
    const chain = begun();
    expect(chain.take(2, encodeRecord(term, events, 1, head))).toMatchObject({ term });
    expect(chain.link("i3")).toEqual({ by: "i3", after: 2 });
  });

  it.each([
    ["builds on an earlier one", 1, [tick], { by: "i1", after: 0 }, "it builds on record 0, not on 1"],
    ["is of another writer in this term", 1, [tick], { by: "i2", after: 1 }, "i2 does not act in term 1"],
    ["begins this term once more", 1, [elected(1)], { by: "i2", after: 1 }, "i2 does not act in term 1"],
    ["is of a term that it does not begin", 2, [tick], { by: "i2", after: 1 }, "i2 does not act in term 2"],
    ["is of a term that its writer does not begin", 2, [tick], { by: "i1", after: 1 }, "i1 does not act in term 2"],
    ["begins another term than its own", 2, [elected(3)], { by: "i2", after: 1 }, "i2 does not act in term 2"],
    ["names no writer, though those before do", 1, [elected(1)], undefined, "it names no controller"],
  ])("is none that %s", (_, term, events, head, flaw) => {
    const chain = begun();
    expect(chain.take(2, encodeRecord(term, events, 1, head))).toBeNull();
    expect(chain.foreign).toEqual({ count: 1, first: `record 2: ${flaw}` });
    expect(chain.link("i3")).toEqual({ by: "i3", after: 1 });
  });

  it("is, where records before it are gone, whichever comes", () => {
    const chain = begun();
    expect(chain.take(9, encodeRecord(7, [tick], 1, { by: "i5", after: 4 }))).toMatchObject({ term: 7 });
  });
});

describe("a journal of before records named their writers", () => {
  const part = { firstSeq: 1, index: 0, count: 1, digest: "0".repeat(64), data: Uint8Array.of(1) };

  it.each([
    ["the beginning of a term", encodeRecord(1, [elected(1)], 1)],
    ["a snapshot", encodePart(1, part, 1)],
  ])("begins with %s, and goes on with any record", (_, first) => {
    const chain = new RecordChain();
    expect(chain.take(1, first)).not.toBeNull();
    expect(chain.take(2, encodeRecord(1, [tick], 1))).not.toBeNull();
    expect(chain.foreign.count).toBe(0);
  });

  it.each([
    ["an input of nobody's term", [tick]],
    ["the beginning of another term", [elected(2)]],
  ])("does not begin with %s", (_, events) => {
    const chain = new RecordChain();
    expect(chain.take(1, encodeRecord(1, events, 1))).toBeNull();
    expect(chain.foreign.first).toBe("record 1: it names no controller");
  });

  it("ends with the first writer who says who it is: nothing without a name comes after it", () => {
    const chain = new RecordChain();
    chain.take(1, encodeRecord(1, [elected(1)], 1));
    expect(chain.take(2, encodeRecord(2, [elected(2)], 1, { by: "i1", after: 1 }))).toMatchObject({ by: "i1" });
    expect(chain.take(3, encodeRecord(3, [elected(3)], 1))).toBeNull();
  });
});

describe("a record of a version of Muster to come that does not say on what it builds", () => {
  it("ends whoever reads where records do not name their writers: it may be the next one", () => {
    const read = () => new RecordChain().take(1, later);
    expect(read).toThrow(expect.objectContaining({ code: "MUSTER_ERR_JOURNAL_VERSION" }));
  });

  it("counts for nothing where they do", () => {
    const chain = begun();
    expect(chain.take(2, later)).toBeNull();
    expect(chain.foreign.count).toBe(1);
  });
});

describe("a record that controllers built on and nobody can read", () => {
  it("ends whoever reads; of very many that nobody can read the first 1,024 are known", () => {
    const chain = begun();
    for (let seq = 2; seq < 1_102; seq++) chain.take(seq, noise);
    expect(chain.foreign.count).toBe(1_100);
    const next = (after: number) => encodeRecord(1, [tick], 1, { by: "i1", after });
    expect(chain.take(1_102, next(1_026))).toBeNull();
    expect(() => chain.take(1_103, next(1_025))).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_JOURNAL_MALFORMED",
        params: expect.objectContaining({ seq: 1_025 }),
      }),
    );
  });

  it("is of no account once a controller has gone on behind it", () => {
    const chain = begun();
    chain.take(2, noise);
    expect(chain.take(3, encodeRecord(1, [tick], 1, { by: "i1", after: 1 }))).toMatchObject({ term: 1 });
    expect(chain.take(4, encodeRecord(1, [tick], 1, { by: "i1", after: 2 }))).toBeNull();
    expect(chain.foreign).toEqual({ count: 2, first: expect.stringContaining("record 2: it can not be read") });
  });
});

describe("the bounds of a record", () => {
  const flaw = (head: object, events: readonly object[] = []) => {
    try {
      decodeRecord(1, pack({ v: 1, term: 1, events, ...head }));
      return null;
    } catch (error) {
      return (error as { readonly code: string }).code;
    }
  };

  it("are a writer's name of 1 to 128 characters", () => {
    expect([1, 128].map((length) => flaw({ by: "x".repeat(length), after: 0 }))).toEqual([null, null]);
    expect([0, 129].map((length) => flaw({ by: "x".repeat(length), after: 0 }))).toEqual(
      Array(2).fill("MUSTER_ERR_JOURNAL_MALFORMED"),
    );
  });

  it("are inputs that say what they are", () => {
    expect(flaw({}, [{ type: "controller.tick" }])).toBeNull();
    for (const input of [{ kind: "controller.tick" }, { type: 3 }, null, "controller.tick", 7])
      expect(flaw({}, [input as object])).toBe("MUSTER_ERR_JOURNAL_MALFORMED");
  });
});
