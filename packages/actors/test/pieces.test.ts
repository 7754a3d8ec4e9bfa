import {
  type BegunGroup,
  createEnveloper,
  encodeMessage,
  pack,
  payloadBytesMax,
  toGroupsBatch,
  toGroupsBegun,
} from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { piecesOfBegun, piecesOfGroups } from "../src/rollout/pieces.ts";
import { causesOf, receiptOf } from "../src/rollout/receipts.ts";
import { group, trajectory } from "./support/groups.ts";

const groupOf = (index: number, length: number) => group(3, index, [trajectory({ length }), trajectory({ length })]);
const begunOf = (index: number, length: number): BegunGroup => ({
  ...{ step: 3, index },
  responses: [
    {
      responseIds: new Int32Array(length),
      logprobs: new Float32Array(length),
      finish: null,
      segments: [{ version: 0, from: 0, to: length }],
    },
  ],
});
const indicesOf = (pieces: readonly (readonly { readonly index: number }[])[]) =>
  pieces.map((piece) => piece.map(({ index }) => index));

describe("finished groups", () => {
  it("go in one message when they fit", () => {
    const groups = [groupOf(0, 2), groupOf(1, 2)];
    expect(piecesOfGroups(groups)).toEqual([groups]);
    expect(piecesOfGroups([])).toEqual([]);
  });

  it("go in as many as they need, in order, and each of these can be sent", () => {
    const groups = Array.from({ length: 40 }, (_, index) => groupOf(index, 1_000 * (1 + (index % 7))));
    const pieces = piecesOfGroups(groups);
    expect(pieces.flat()).toEqual(groups);
    expect(pieces.length).toBeGreaterThan(1);
    const { stamp } = createEnveloper({ job: "j", id: "r", role: "rollout", incarnation: "i", wallMs: () => 0 });
    for (const piece of pieces)
      expect(encodeMessage(stamp("groups.batch", toGroupsBatch(piece))).length).toBeLessThan(payloadBytesMax);
  });

  it("of which one fits into no message are given up with the cause, and the others stay", () => {
    const bytesMax = 1_000;
    const pieces = piecesOfGroups([groupOf(0, 2), groupOf(1, 500), groupOf(2, 2)], bytesMax);
    expect(indicesOf(pieces)).toEqual([[0, 1, 2]]);
    const [whole, large] = pieces.flat();
    expect(whole).toEqual(groupOf(0, 2));
    expect(receiptOf(large!, { streamSeq: 1, version: 7 })).toMatchObject({ completed: 0, aborted: 2, version: 7 });
    const said = `group 3.1 takes ${pack(toGroupsBatch([groupOf(1, 500)])).length} bytes and a message at most 1000`;
    expect(causesOf(pieces.flat())).toMatchObject([
      { message: expect.stringContaining(said), count: 2, failure: "user_error" },
    ]);
  });
});

describe("begun groups", () => {
  it("go in as many messages as they need", () => {
    const bytesMax = pack(toGroupsBegun(0, [begunOf(0, 100)])).length * 2;
    const pieces = piecesOfBegun([begunOf(0, 100), begunOf(1, 100), begunOf(2, 100)], bytesMax);
    expect(indicesOf(pieces)).toEqual([[0, 1], [2]]);
  });

  it("of which one fits into no message go back without what was drawn of it", () => {
    const pieces = piecesOfBegun([begunOf(0, 10), begunOf(1, 1_000)], 2_000);
    expect(indicesOf(pieces)).toEqual([[0, 1]]);
    expect(pieces.flat()[1]?.responses).toMatchObject([{ responseIds: new Int32Array(0), finish: null }]);
  });
});
