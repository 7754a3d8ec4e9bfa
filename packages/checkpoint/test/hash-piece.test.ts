/** The thread that hashes pieces: what it answers, and what becomes of those who wait when it ends. */
import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { HashThread, hashPiece } from "../src/hash/hash-piece.ts";

const MiB = 1024 * 1024;

/** Shared memory of this size, filled with one byte. */
const sharedOf = (bytes: number, value: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(bytes)).fill(value);
const sha256 = (piece: Uint8Array): string => createHash("sha256").update(piece).digest("hex");

it("gives every piece its own SHA-256, however many are sent before the first answer, and of a view only what it shows", async () => {
  const pieces = [1, 2, 3, 4, 5].map((value) => sharedOf(2 * MiB, value).subarray(value, 2 * MiB - value));
  const digests = await Promise.all(pieces.map((piece) => hashPiece(piece)));
  expect(digests.map((digest) => Buffer.from(digest).toString("hex"))).toEqual(pieces.map(sha256));
});

it("hashes at once what no thread needs to hear of: what is small, and what other threads can not see", async () => {
  for (const piece of [sharedOf(MiB - 1, 7), new Uint8Array(2 * MiB).fill(7)]) {
    const digest = hashPiece(piece);
    expect(digest).toBeInstanceOf(Uint8Array);
    expect(Buffer.from(await digest).toString("hex")).toBe(sha256(piece));
  }
  expect(hashPiece(sharedOf(MiB, 7))).toBeInstanceOf(Promise);
});

it.each([
  ["process.exit(3)", "exit code 3"],
  ["throw new Error('out of memory')", "out of memory"],
])("whoever waits for a thread that ends hears why: %s", async (code, reason) => {
  const thread = new HashThread(new URL(`data:text/javascript,${encodeURIComponent(code)}`));
  const hashes = [1, 2].map((value) => thread.hash(sharedOf(MiB, value)));
  for (const hash of hashes)
    await expect(hash).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_HASH_THREAD",
      message: expect.stringContaining(reason),
    });
  expect(thread.isOver).toBe(true);
});
