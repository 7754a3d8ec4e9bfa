/** Receipts that wait for those of the last chunk of their lease: what is told at once, what is kept, and what goes together. */
import { describe, expect, it } from "vitest";
import { tellStored } from "../src/rollout/kept-receipts.ts";
import { receiptOf } from "./states.ts";

const stored = (chunkId: string, patch: object = {}) => ({
  ...{ type: "groups.stored" as const, chunkId, leaseId: chunkId.split("/")[0] ?? "" },
  ...{ receipts: [receiptOf(4, 0)], causes: [], durationMs: 3 },
  ...patch,
});
const last = { id: "1-1/1", leaseId: "1-1", lineage: 0, version: 3, items: [] };
const quiet = { kept: null, current: last, queue: [], isLeaving: false };
const { type: _, chunkId: __, ...body } = stored("1-1/0");
const kept = { chunkIds: ["1-1/0"], body };

describe("receipts of a chunk", () => {
  it("are kept while the last chunk of their lease is generated, and told with that one's", () => {
    expect(tellStored(quiet, stored("1-1/0"))).toEqual({ tell: [], kept });
    const both = tellStored({ ...quiet, kept, current: null }, stored("1-1/1"));
    expect(both.kept).toBeNull();
    expect(both.tell).toMatchObject([{ chunkIds: ["1-1/0", "1-1/1"], body: { durationMs: 6 } }]);
    expect(both.tell[0]?.body.receipts).toHaveLength(2);
  });

  it.each<[string, object, object]>([
    ["are of that chunk itself", {}, stored("1-1/1")],
    ["are of another lease", {}, stored("1-0/0")],
    ["tell of errors", {}, stored("1-1/0", { causes: [{ name: "E", message: "m", count: 1 }] })],
    ["nothing is generated", { current: null }, stored("1-1/0")],
    ["more is to come", { queue: [last] }, stored("1-1/0")],
    ["their holder leaves", { isLeaving: true }, stored("1-1/0")],
  ])("are told at once where %s", (_what, patch, event) => {
    const told = tellStored({ ...quiet, ...patch }, event as ReturnType<typeof stored>);
    expect([told.tell.length, told.kept]).toEqual([1, null]);
  });

  it("never go with those of another lease, and never are more in one report than fit", () => {
    const other = tellStored({ ...quiet, kept, current: null }, stored("1-2/0"));
    expect(other.tell.map(({ chunkIds }) => chunkIds)).toEqual([["1-1/0"], ["1-2/0"]]);
    const many = (count: number) => Array.from({ length: count }, (_none, i) => receiptOf(4, i));
    const sizes = (count: number) =>
      tellStored({ ...quiet, kept, current: null }, stored("1-1/1", { receipts: many(count) })).tell.map(
        (each) => each.body.receipts.length,
      );
    expect([sizes(1_023), sizes(1_024)]).toEqual([[1_024], [1, 1_024]]);
  });
});
