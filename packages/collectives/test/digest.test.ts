import { expect, it } from "vitest";
import { digestsOf, nativeCapabilities } from "../src/index.ts";
import { digestOf } from "../src/internal.ts";
import { bytesOf } from "./support/fixtures.ts";

const blockBytes = 256 * 1024;

it("gives the documented digest of nothing: XXH3 of an eight-byte zero length", () => {
  expect(digestOf(new Uint8Array(0))).toBe("xxh3b:c77b3abb6f87acd9");
});

it("gives the same digest for the same bytes wherever they lie", () => {
  const bytes = bytesOf(2 * blockBytes + 17, 1);
  const shifted = new Uint8Array(bytes.length + 3).subarray(3);
  shifted.set(bytes);
  expect(digestOf(shifted)).toBe(digestOf(bytes));
});

it.each([0, blockBytes - 1, blockBytes, 2 * blockBytes + 16])("notices one changed bit at byte %i", (at) => {
  const bytes = bytesOf(2 * blockBytes + 17, 1);
  const before = digestOf(bytes);
  bytes[at] = bytes[at]! ^ 1;
  expect(digestOf(bytes)).not.toBe(before);
});

it("notices blocks that changed places, and a length that differs by a zero byte", () => {
  const bytes = bytesOf(2 * blockBytes, 1);
  const swapped = new Uint8Array(bytes.length);
  swapped.set(bytes.subarray(blockBytes));
  swapped.set(bytes.subarray(0, blockBytes), blockBytes);
  expect(digestOf(swapped)).not.toBe(digestOf(bytes));
  expect(digestOf(new Uint8Array(1))).not.toBe(digestOf(new Uint8Array(2)));
});

it("says what this machine can do", () => {
  expect(nativeCapabilities()).toMatchObject({ sharedMemory: true, tcp: true, version: expect.stringMatching(/^\d/) });
});

it("digests sections together and beside, as one by one", async () => {
  const sections = [bytesOf(3 * blockBytes + 5, 1), new Uint8Array(0), bytesOf(17, 2), bytesOf(2 * blockBytes, 3)];
  expect(await digestsOf(sections, new AbortController().signal)).toEqual(sections.map(digestOf));
  expect(await digestsOf([], new AbortController().signal)).toEqual([]);
});

it("gives a section in pieces the digest of the whole, however it is cut at blocks", async () => {
  const { signal } = new AbortController();
  const bytes = bytesOf(7 * blockBytes + 11, 4);
  const cutAt = (...blocks: number[]) =>
    [0, ...blocks].map((block, i) => bytes.subarray(block * blockBytes, (blocks[i] ?? 8) * blockBytes));
  const sections = [cutAt(1, 2, 3, 4, 5, 6, 7), bytesOf(9, 5), cutAt(4), cutAt(7), [], [bytes]];
  const whole = digestOf(bytes);
  expect(await digestsOf(sections, signal)).toEqual([
    ...[whole, digestOf(bytesOf(9, 5)), whole, whole],
    ...[digestOf(new Uint8Array(0)), whole],
  ]);
});

it("refuses a piece that ends within a block and is not the last", async () => {
  const pieces = [bytesOf(blockBytes + 1, 1), bytesOf(blockBytes, 2)];
  await expect(digestsOf([bytesOf(5, 3), pieces], new AbortController().signal)).rejects.toMatchObject({
    code: "MUSTER_ERR_NATIVE_OPTION_INVALID",
    message: expect.stringContaining(`sections.1`),
  });
});

it("stops digesting when nobody wants it any more, with that reason", async () => {
  const abort = new AbortController();
  const digesting = digestsOf([new Uint8Array(64 * 2 ** 20)], abort.signal);
  abort.abort(new Error("a newer epoch"));
  await expect(digesting).rejects.toThrow("a newer epoch");
  await expect(digestsOf([new Uint8Array(1)], abort.signal)).rejects.toThrow("a newer epoch");
});
