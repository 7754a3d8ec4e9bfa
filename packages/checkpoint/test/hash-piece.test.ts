/** The thread that hashes pieces: what it answers, and what becomes of those who wait when it ends. */
import { createHash } from "node:crypto";
import { Worker } from "node:worker_threads";
import { expect, it, vi } from "vitest";
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

it("pieces have one thread, which keeps the process alive only while somebody waits for it", async () => {
  const calls: string[] = [];
  const threads = new Set<Worker>();
  const { ref, unref, postMessage } = Worker.prototype;
  const spies = [
    vi.spyOn(Worker.prototype, "ref").mockImplementation(function (this: Worker) {
      calls.push("ref");
      threads.add(this);
      ref.call(this);
    }),
    vi.spyOn(Worker.prototype, "unref").mockImplementation(function (this: Worker) {
      calls.push("unref");
      unref.call(this);
    }),
    vi.spyOn(Worker.prototype, "postMessage").mockImplementation(function (this: Worker, message: unknown) {
      calls.push("send");
      postMessage.call(this, message);
    }),
  ];
  try {
    await hashPiece(sharedOf(MiB, 1));
    calls.length = 0;
    await Promise.all([1, 2].map((value) => hashPiece(sharedOf(MiB, value))));
    expect(calls).toEqual(["ref", "send", "ref", "send", "unref"]);
    expect(threads.size).toBe(1);
    calls.length = 0;
    const thread = new HashThread(new URL("data:text/javascript,"));
    expect([calls, thread.isOver]).toEqual([["unref"], false]);
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
});

it("the thread answers each piece with its SHA-256", async () => {
  let hear = (_piece: Uint8Array): void => {};
  const answers: string[] = [];
  const parentPort = {
    on: (event: string, listener: typeof hear) => {
      if (event === "message") hear = listener;
    },
    postMessage: (digest: Uint8Array) => answers.push(Buffer.from(digest).toString("hex")),
  };
  vi.resetModules();
  vi.doMock("node:worker_threads", () => ({ parentPort }));
  try {
    await import("../src/hash/thread.ts");
  } finally {
    vi.doUnmock("node:worker_threads");
  }
  const pieces = [1, 2].map((value) => sharedOf(9, value));
  for (const piece of pieces) hear(piece);
  expect(answers).toEqual(pieces.map(sha256));
});
