/** Bytes that cost far more to decode than to send are refused by their headers; whatever the protocol itself says passes. */
import { describe, expect, it } from "vitest";
import {
  decodeSealed,
  encodeMessage,
  type Kind,
  type Message,
  messageTable,
  narrowBounds,
  pack,
  smallBytesMax,
  unseal,
  wideBounds,
} from "../src/index.ts";
import { messageKinds } from "../src/internal.ts";
import { flawOfPacked } from "../src/scan.ts";
import { sampleMessage } from "./samples.ts";

const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const boundsOf = (kind: Kind) =>
  ["report", "heartbeat"].includes(messageTable[kind].direction) ? narrowBounds : wideBounds;

describe("the look at packed bytes", () => {
  const bytes = (...head: number[]): Uint8Array => Uint8Array.from([...head, ...many(16, 0)]);
  it.each<[string, Uint8Array, RegExp]>([
    ["an extension of one byte", bytes(0xd4, 0x72), /extension or unknown type 0xd4/],
    ["an extension of sixteen bytes", bytes(0xd8, 1), /0xd8/],
    ["an extension with a length", bytes(0xc7, 1, 0xff), /0xc7/],
    ["a byte that no header is", bytes(0xc1), /0xc1/],
    ["an extension inside", pack({ a: [new Date(0)] }), /extension/],
    ["a promise of millions of elements", bytes(0xdd, 0x7f, 0xff, 0xff, 0xff), /an array of 2147483647 elements/],
    ["a promise of millions of keys", bytes(0xdf, 0x7f, 0xff, 0xff, 0xff), /a map of 2147483647 keys/],
    ["sixty-five keys", pack(Object.fromEntries(many(65, 0).map((_, i) => [`k${i}`, 0]))), /a map of 65 keys/],
    ["arrays in arrays", Uint8Array.from(many(1_000, 0x91)), /nested deeper than 16/],
    ["maps in maps", Uint8Array.from(many(1_000, [0x81, 0xa0]).flat()), /nested deeper than 16/],
    ["many arrays that are small enough", pack(many(80, many(2_000, 0))), /more than 80000 elements/],
    ["many empty things", pack(many(2_048, many(64, []))), /more than 80000 elements/],
  ])("refuses %s", (_, data, reason) => {
    expect(flawOfPacked(data, narrowBounds)).toMatch(reason);
  });

  it("passes over whatever stands in texts and bytes", () => {
    for (const length of [0, 31, 32, 255, 256, 65_535, 65_536, 200_000]) {
      const value = {
        text: "\u00d4".repeat(length),
        bytes: new Uint8Array(length).fill(0xd4),
        last: [1, -1, 1.5, null],
      };
      expect(flawOfPacked(pack(value), narrowBounds), String(length)).toBeNull();
    }
  });

  it.each(messageKinds)("passes %s", (kind) => {
    expect(flawOfPacked(encodeMessage(sampleMessage(kind) as Message), boundsOf(kind))).toBeNull();
  });

  const part = { streamSeq: 2 ** 40, groupIds: many(1_024, "1234.5678") };
  const item = {
    purpose: "train" as const,
    step: 2 ** 30,
    index: 7,
    attempt: 3,
    partial: { streamSeq: 2 ** 40, tokens: 9 },
  };
  const counts = { completed: 16, aborted: 0, tokens: 2 ** 20, rewardSum: 0.25 };
  const receipt = { step: 2 ** 30, index: 7, attempt: 3, streamSeq: 2 ** 40, version: 2 ** 30, ...counts };
  it.each<[Kind, object]>([
    ["groups.completed", { receipts: many(1_024, receipt) }],
    ["groups.saved", { items: many(1_024, item) }],
    ["groups.returned", { items: many(1_024, item) }],
    ["step.voted", { unreadable: many(64, part), missing: many(1_024, "policy-7") }],
    ["step.committed", { groups: many(65_536, "1234.56789") }],
    ["node.assign", { replicas: many(4_096, { id: "rollout-1", role: "rollout", life: 3 }) }],
  ])("passes the largest %s that its schema takes", (kind, patch) => {
    const said = sampleMessage(kind);
    const message = { ...said, body: { ...said.body, ...patch } } as Message;
    expect(unseal(decodeSealed(Uint8Array.from(encodeMessage(message)), boundsOf(kind)))).toEqual(message);
  });

  it("leaves room for the longest texts of every report without a large table", () => {
    const texts = "理".repeat(2_000);
    const missing = many(1_024, "p".repeat(48));
    const { body, ...rest } = sampleMessage("mesh.failed");
    const message = { ...rest, body: { ...body, cause: texts, missing } } as Message;
    expect(encodeMessage(message).length).toBeLessThan(smallBytesMax);
  });
});
