import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { hasShaInstructions, sha256Each } from "../src/index.ts";
import { bytesOf } from "./support/fixtures.ts";

const MiB = 2 ** 20;
const sha256 = (piece: Uint8Array): string => createHash("sha256").update(piece).digest("hex");
const hexOf = (digests: readonly Uint8Array[]): string[] =>
  digests.map((digest) => Buffer.from(digest).toString("hex"));

it("gives each piece the SHA-256 of node:crypto: any number of pieces, of any length, from any byte on, in shared memory or not", async () => {
  const own = bytesOf(200_000, 1);
  const shared = new Uint8Array(new SharedArrayBuffer(own.length));
  shared.set(bytesOf(own.length, 2));
  const piece = fc
    .record({
      memory: fc.constantFrom(own, shared),
      from: fc.nat(1_000),
      bytes: fc.oneof(fc.nat(300), fc.nat(190_000)),
    })
    .map(({ memory, from, bytes }) => memory.subarray(from, from + bytes));
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 9 }), async (pieces) => {
      expect(hexOf(await sha256Each(pieces))).toEqual(pieces.map(sha256));
    }),
    { numRuns: 200 },
  );
});

it("hashes large pieces of very different lengths, in several calls at once", async () => {
  const calls = [1, 2, 3].map((seed) => [
    bytesOf(5 * MiB + seed, seed),
    new Uint8Array(0),
    bytesOf(64, seed),
    bytesOf(MiB, seed),
  ]);
  const digests = await Promise.all(calls.map((pieces) => sha256Each(pieces)));
  expect(digests.map(hexOf)).toEqual(calls.map((pieces) => pieces.map(sha256)));
});

it("leaves a list alone that changes after the call", async () => {
  const pieces = [bytesOf(MiB, 1), bytesOf(MiB, 2)];
  const expected = pieces.map(sha256);
  const hashing = sha256Each(pieces);
  pieces.length = 0;
  expect(hexOf(await hashing)).toEqual(expected);
});

it("knows whether the processor has instructions for it", () => {
  expect(typeof hasShaInstructions()).toBe("boolean");
});
