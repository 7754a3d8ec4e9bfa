/** Pieces hashed together: how many in a call, who is told what, and that nobody waits for ever. */
import { createHash } from "node:crypto";
import { beforeEach, expect, it } from "vitest";
import { gathered, type HashContent } from "../src/hash/gathered.ts";

const pieceBytes = 1024 * 1024;
const sha256 = (piece: Uint8Array): Uint8Array => createHash("sha256").update(piece).digest();
const pieceOf = (value: number): Uint8Array => new Uint8Array(pieceBytes).fill(value);

function withResolvers<T>() {
  let [resolve, reject] = [(_value: T): void => {}, (_error: Error): void => {}];
  const promise = new Promise<T>((onDone, onFailed) => {
    [resolve, reject] = [onDone, onFailed];
  });
  return { promise, resolve, reject };
}

interface Call {
  readonly pieces: readonly number[];
  answer(): void;
  fail(error: Error): void;
}

let calls: Call[];
let hash: HashContent;

beforeEach(() => {
  calls = [];
  hash = gathered((pieces) => {
    const { promise, resolve, reject } = withResolvers<readonly Uint8Array[]>();
    calls.push({
      pieces: pieces.map(([first]) => first ?? 0),
      answer: () => resolve(pieces.map(sha256)),
      fail: reject,
    });
    return promise;
  });
});

/** Until everything that can happen has happened. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
const called = (): readonly (readonly number[])[] => calls.map(({ pieces }) => pieces);

/** A piece that is not made yet. */
function unmade(value: number) {
  const { promise, resolve, reject } = withResolvers<Uint8Array>();
  const digest = hash(() => promise);
  return { digest, make: () => resolve(pieceOf(value)), fail: reject };
}

it("three pieces are a call, however many are still being made, and each has its own digest", async () => {
  const pieces = [1, 2, 3, 4, 5, 6, 7].map(unmade);
  for (const at of [4, 0]) pieces[at]?.make();
  await settled();
  expect(called()).toEqual([]);
  for (const at of [1, 2]) pieces[at]?.make();
  await settled();
  expect(called()).toEqual([[5, 1, 2]]);
  calls[0]?.answer();
  expect([await pieces[4]?.digest, await pieces[0]?.digest]).toEqual([5, 1].map((value) => sha256(pieceOf(value))));
});

it("fewer are a call when no other is being made", async () => {
  const pieces = [1, 2].map(unmade);
  pieces[0]?.make();
  await settled();
  expect(called()).toEqual([]);
  pieces[1]?.make();
  await settled();
  expect(called()).toEqual([[1, 2]]);
});

it("a piece that fails is nobody else's: the others are hashed, and it says what it failed with", async () => {
  const pieces = [1, 2].map(unmade);
  pieces[0]?.make();
  await settled();
  pieces[1]?.fail(new Error("the disk is gone"));
  await expect(pieces[1]?.digest).rejects.toThrow("the disk is gone");
  await settled();
  expect(called()).toEqual([[1]]);
});

it("two calls are under way at most, and the next one takes what came meanwhile and what those who were answered made", async () => {
  const again = hash(async () => pieceOf(1)).then(() => hash(async () => pieceOf(9)));
  await settled();
  const pieces = [2, 3, 4, 5, 6, 7, 8].map(unmade);
  for (const { make } of pieces) make();
  await settled();
  expect(called()).toEqual([[1], [2, 3, 4]]);
  calls[0]?.answer();
  await settled();
  expect(called()).toEqual([[1], [2, 3, 4], [5, 6, 7]]);
  calls[1]?.answer();
  await settled();
  // One call is left, and two are too few for another.
  expect(called()).toHaveLength(3);
  calls[2]?.answer();
  await settled();
  expect(called()[3]).toEqual([8, 9]);
  calls[3]?.answer();
  expect(await again).toEqual(sha256(pieceOf(9)));
});

it("a call that fails fails its own pieces, and others are hashed afterwards", async () => {
  const failing = [1, 2, 3].map((value) => hash(async () => pieceOf(value)));
  const ends = Promise.allSettled(failing);
  await settled();
  calls[0]?.fail(new Error("no thread"));
  expect((await ends).map((end) => end.status === "rejected" && end.reason.message)).toEqual(
    Array(3).fill("no thread"),
  );
  const next = hash(async () => pieceOf(4));
  await settled();
  calls[1]?.answer();
  expect(await next).toEqual(sha256(pieceOf(4)));
});

it("digests that are not one for each piece are an error of all of them", async () => {
  const short = gathered(async (pieces) => pieces.slice(1).map(sha256));
  await expect(short(async () => pieceOf(1))).rejects.toThrow("1 pieces have 0 digests");
});

it("small pieces are hashed at once, and all of them where nobody hashes several", async () => {
  const small = new Uint8Array(pieceBytes - 1).fill(7);
  expect(await hash(async () => small)).toEqual(sha256(small));
  expect(calls).toEqual([]);
  expect(await gathered(undefined)(async () => pieceOf(3))).toEqual(sha256(pieceOf(3)));
});
