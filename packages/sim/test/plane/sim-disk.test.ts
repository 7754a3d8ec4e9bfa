import { randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import { Failpoints } from "../../src/faults/failpoints.ts";
import { SimDisk } from "../../src/plane/sim-disk.ts";
import { modelsOf } from "../support/models.ts";

const bytes = (length: number, value = 7): Uint8Array => new Uint8Array(length).fill(value);
const quiet = (): Failpoints => new Failpoints([], () => {});

async function writeFile(disk: SimDisk, path: string, options: { readonly sync: boolean }): Promise<void> {
  const file = await disk.fs.create(path);
  await file.write(bytes(100), 0);
  if (options.sync) await file.sync();
  await file.close();
}

describe("the simulated disk", () => {
  it("shows a reader what is written after it has opened the file", async () => {
    const { fs } = new SimDisk(quiet());
    await fs.prepareRoot("/a");
    const file = await fs.create("/a/x");
    const reader = await fs.open("/a/x");
    await file.write(bytes(4, 1), 0);
    await file.write(bytes(2, 2), 4);
    const target = bytes(6);
    expect(await reader.read(target, 0)).toBe(6);
    expect([...target]).toEqual([1, 1, 1, 1, 2, 2]);
  });

  it("tears what was not synced when the power fails: each part of it may be lost", async () => {
    const sizes = new Set<number | null>();
    for (let seed = 0; seed < 60; seed++) {
      const disk = new SimDisk(quiet());
      await disk.fs.prepareRoot("/store");
      await writeFile(disk, "/store/file", { sync: false });
      disk.losePower(randomOf(seed));
      sizes.add((await disk.fs.stat("/store/file"))?.sizeBytes ?? null);
    }
    expect(sizes).toContain(null);
    expect([...sizes].some((size) => size !== null && size > 0 && size < 100)).toBe(true);
  });

  it("keeps what was synced together with its name", async () => {
    for (let seed = 0; seed < 60; seed++) {
      const disk = new SimDisk(quiet());
      await disk.fs.prepareRoot("/store");
      await writeFile(disk, "/store/file", { sync: true });
      await disk.fs.syncDirectory("/store");
      disk.losePower(randomOf(seed));
      expect((await disk.fs.stat("/store/file"))?.sizeBytes).toBe(100);
    }
  });

  it("shows what would be left if all that is not synced were lost, and goes on as it is", async () => {
    const disk = new SimDisk(quiet());
    await disk.fs.prepareRoot("/store");
    await writeFile(disk, "/store/synced", { sync: true });
    await writeFile(disk, "/store/torn", { sync: false });
    await disk.fs.syncDirectory("/store");
    await writeFile(disk, "/store/unnamed", { sync: true });
    const left = disk.durableCopy();
    const sizes = ["synced", "torn", "unnamed"].map(async (name) => (await left.stat(`/store/${name}`))?.sizeBytes);
    expect(await Promise.all(sizes)).toEqual([100, 0, undefined]);
    expect(await disk.fs.list("/store")).toEqual(["synced", "torn", "unnamed"]);
    expect((await disk.fs.stat("/store/torn"))?.sizeBytes).toBe(100);
  });

  it("stamps a folder when something in it changes, and not when the folder is renamed", async () => {
    let nowMs = 1_000;
    const { fs } = new SimDisk(quiet(), {}, () => nowMs);
    await fs.prepareRoot("/store");
    await fs.makeDirectory("/store/a");
    nowMs = 2_000;
    await (await fs.create("/store/a/file")).close();
    nowMs = 3_000;
    await fs.rename("/store/a", "/store/b");
    expect((await fs.stat("/store/b"))?.modifiedMs).toBe(2_000);
    expect((await fs.stat("/store"))?.modifiedMs).toBe(3_000);
  });

  it("may lose a synced file whose directory was not synced, and may undo a rename", async () => {
    const found = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const disk = new SimDisk(quiet());
      await disk.fs.prepareRoot("/store");
      await writeFile(disk, "/store/temporary", { sync: true });
      await disk.fs.syncDirectory("/store");
      await disk.fs.rename("/store/temporary", "/store/final");
      disk.losePower(randomOf(seed));
      found.add((await disk.fs.list("/store")).join());
    }
    expect([...found].toSorted()).toEqual(["final", "temporary"]);
  });

  it("keeps everything when only processes die", async () => {
    const disk = new SimDisk(quiet());
    await disk.fs.prepareRoot("/store");
    await writeFile(disk, "/store/file", { sync: false });
    const file = await disk.fs.open("/store/file");
    const target = new Uint8Array(100);
    expect(await file.read(target, 0)).toBe(100);
    expect(target).toEqual(bytes(100));
  });

  it("fails a call at its failpoint as a full disk does", async () => {
    const { process, runFor } = modelsOf();
    const disk = new SimDisk(
      new Failpoints([{ point: "checkpoint.fs-create", nth: 1, action: { type: "error" } }], () => {}),
    );
    await disk.fs.prepareRoot("/store");
    const outcome = disk
      .fsOf(process("checkpoint-1", "checkpoint"))
      .create("/store/file")
      .then(
        () => "created",
        ({ code }) => code,
      );
    await runFor(10);
    expect(await outcome).toBe("ENOSPC");
  });
});
