import {
  type BegunPart,
  createEnveloper,
  encodeMessage,
  pack,
  payloadBytesMax,
  toGroupsBatch,
  toGroupsBegun,
} from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { bundlesOfBegun, bundlesOfGroups } from "../src/rollout/bundles.ts";
import { causesOf, receiptOf } from "../src/rollout/receipts.ts";
import { group, trajectory } from "./support/groups.ts";

const groupOf = (index: number, length: number) => group(3, index, [trajectory({ length }), trajectory({ length })]);
const begunOf = (index: number, length: number): BegunPart => ({
  ...{ step: 3, index, before: null, skipped: [0] },
  responses: [
    {
      responseIds: new Int32Array(length),
      logprobs: new Float32Array(length),
      finish: null,
      segments: [{ version: 0, from: 0, to: length }],
    },
  ],
});
const indicesOf = (bundles: readonly (readonly { readonly index: number }[])[]) =>
  bundles.map((bundle) => bundle.map(({ index }) => index));

const bounds = { messageBytes: 512 * 1024, bodyBytesMax: 2 ** 24 };

describe("finished groups", () => {
  it("go in one message when they fit", () => {
    const groups = [groupOf(0, 2), groupOf(1, 2)];
    expect(bundlesOfGroups(groups, bounds)).toEqual([groups]);
    expect(bundlesOfGroups([], bounds)).toEqual([]);
  });

  it("go in as many as they need, in order, and each of these can be sent", () => {
    const groups = Array.from({ length: 40 }, (_, index) => groupOf(index, 1_000 * (1 + (index % 7))));
    const bundles = bundlesOfGroups(groups, bounds);
    expect(bundles.flat()).toEqual(groups);
    expect(bundles.length).toBeGreaterThan(1);
    const { stamp } = createEnveloper({ job: "j", id: "r", role: "rollout", incarnation: "i", wallMs: () => 0 });
    for (const bundle of bundles)
      expect(encodeMessage(stamp("groups.batch", toGroupsBatch(bundle))).length).toBeLessThan(payloadBytesMax);
  });

  it("of which one is larger than a message go apart from it", () => {
    const bundles = bundlesOfGroups([groupOf(0, 2), groupOf(1, 500), groupOf(2, 2)], {
      ...bounds,
      messageBytes: 1_000,
    });
    expect(indicesOf(bundles)).toEqual([[0], [1], [2]]);
  });

  it("of which one is larger than a group of the job can be are given up with the cause, and the others stay", () => {
    const bundles = bundlesOfGroups([groupOf(0, 2), groupOf(1, 500), groupOf(2, 2)], {
      messageBytes: 1_000,
      bodyBytesMax: 1_000,
    });
    expect(indicesOf(bundles)).toEqual([[0, 1, 2]]);
    const [whole, large] = bundles.flat();
    expect(whole).toEqual(groupOf(0, 2));
    expect(receiptOf(large!, { place: { streamSeq: 1 }, version: 7 })).toMatchObject({
      completed: 0,
      aborted: 2,
      version: 7,
    });
    const said = `group 3.1 takes ${pack(toGroupsBatch([groupOf(1, 500)])).length} bytes and a group of this job at most 1000`;
    expect(causesOf(bundles.flat())).toMatchObject([
      { message: expect.stringContaining(said), count: 2, failure: "user_error" },
    ]);
  });
});

describe("begun groups", () => {
  it("go together as far as they fit into a message", () => {
    const messageBytes = pack(toGroupsBegun(0, [begunOf(0, 100)])).length * 2;
    const bundles = bundlesOfBegun([begunOf(0, 100), begunOf(1, 100), begunOf(2, 100)], messageBytes);
    expect(indicesOf(bundles)).toEqual([[0, 1], [2]]);
  });
});
