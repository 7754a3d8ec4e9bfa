import { describe, expect, it } from "vitest";
import { ownDigest, RunningHash } from "../src/digest.ts";

/** The digest of what is written by `write`. */
const of = (write: (hash: RunningHash) => void): string => {
  const hash = new RunningHash();
  write(hash);
  return hash.digest();
};

describe("the digest of the checkers", () => {
  it("tells apart where one text ends and the next begins, and so of bytes", () => {
    const texts = (one: string, other: string) =>
      of((hash) => {
        hash.text(one);
        hash.text(other);
      });
    expect(texts("ab", "c")).not.toBe(texts("a", "bc"));
    const bytes = (one: readonly number[], other: readonly number[]) =>
      of((hash) => {
        hash.bytes(Uint8Array.from(one));
        hash.bytes(Uint8Array.from(other));
      });
    expect(bytes([1, 2], [3])).not.toBe(bytes([1], [2, 3]));
  });

  it("sees each byte, the order of bytes, and two thousandths of a number", () => {
    const digests = [
      ...[[], [0], [0, 0], [1, 2], [2, 1], [1, 3]].map((bytes) => ownDigest(Uint8Array.from(bytes))),
      ...[1, 1.002, -1, 1_000].map((value) => of((hash) => hash.number(value))),
    ];
    expect(new Set(digests).size).toBe(digests.length);
    for (const digest of digests) expect(digest).toMatch(/^[0-9a-f]{16}$/);
  });
});
