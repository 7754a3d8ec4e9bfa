import { closeSync, fstatSync, ftruncateSync, openSync, readdirSync, readlinkSync, readSync, writeSync } from "node:fs";
import { expect, it } from "vitest";
import { openSharedRegion } from "../src/index.ts";
import { bytesOf } from "./support/fixtures.ts";

const MiB = 2 ** 20;
const pathOf = (fd: number): string => `/proc/self/fd/${fd}`;

/** Descriptors of this process for memory of a name. */
const openOf = (name: string): number =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(pathOf(Number(fd))).includes(name);
    } catch {
      return false; // that of the listing itself
    }
  }).length;

it.each([
  ["small", 1000, 7],
  ["large, on threads of its own", 3 * MiB, 5 * MiB - 1],
])(
  "what is %s is written where it belongs, seen by whoever opened the memory, and read again",
  async (_, bytes, at) => {
    const region = openSharedRegion("test", 8 * MiB);
    const other = openSync(pathOf(region.fd), "r+");
    const given = bytesOf(bytes, 3);
    await region.write(given, at);
    const seen = new Uint8Array(bytes + 2);
    readSync(other, seen, 0, seen.length, at - 1);
    expect([seen.at(0), seen.at(-1)]).toEqual([0, 0]);
    expect(Buffer.compare(seen.subarray(1, -1), given)).toBe(0);
    writeSync(other, Uint8Array.of(99), 0, 1, at);
    const read = new Uint8Array(bytes);
    await region.read(read, at);
    expect(read[0]).toBe(99);
    expect(Buffer.compare(read.subarray(1), given.subarray(1))).toBe(0);
    closeSync(other);
    region.close();
  },
);

it("nobody can cut it or make it larger", () => {
  const region = openSharedRegion("test", 5);
  const other = openSync(pathOf(region.fd), "r+");
  const { size } = fstatSync(other);
  for (const bytes of [0, 4, size - 1, size + 1]) expect(() => ftruncateSync(other, bytes)).toThrow("EPERM");
  expect(fstatSync(other).size).toBe(size);
  closeSync(other);
  region.close();
});

it("has no name any more once it is hidden, and is still there for those that have it", async () => {
  const region = openSharedRegion("test-hidden", 5);
  const other = openSync(pathOf(region.fd), "r+");
  expect(openOf("test-hidden")).toBe(2);
  region.hide();
  expect(openOf("test-hidden")).toBe(1);
  await region.write(Uint8Array.of(1, 2), 3);
  const seen = new Uint8Array(2);
  readSync(other, seen, 0, 2, 3);
  expect(seen).toEqual(Uint8Array.of(1, 2));
  closeSync(other);
  region.close();
  region.close();
});

it.each([
  ["begins behind its end", 6, 0],
  ["ends behind its end", 4, 2],
  ["begins before it", -1, 2],
])("refuses a copy that %s", async (_, at, bytes) => {
  const region = openSharedRegion("test", 5);
  for (const copy of [region.write(new Uint8Array(bytes), at), region.read(new Uint8Array(bytes), at)])
    await expect(copy).rejects.toMatchObject({ code: "MUSTER_ERR_NATIVE_OPTION_INVALID" });
  region.close();
});

it("a copy that is under way when it is closed comes to its end, and none begins afterwards", async () => {
  const region = openSharedRegion("test", 64 * MiB);
  const given = bytesOf(64 * MiB, 1);
  await region.write(given, 0);
  const into = new Uint8Array(64 * MiB);
  const reading = region.read(into, 0);
  region.close();
  await reading;
  expect(Buffer.compare(into, given)).toBe(0);
  await expect(region.read(new Uint8Array(1), 0)).rejects.toThrow("region is closed");
});

it.each([0, -1, 1.5, Number.NaN, 2 ** 60])("refuses a size of %d bytes", (bytes) => {
  expect(() => openSharedRegion("test", bytes)).toThrow(/bytes|memory/);
});
