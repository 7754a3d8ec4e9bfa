/** Which records of the journal are the controllers', and which count for nothing. */
import type { ControllerEvent } from "@muster/machines/controller";
import { pack } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
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
