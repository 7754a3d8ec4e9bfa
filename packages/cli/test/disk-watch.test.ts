/** A full disk is named with its folder, once, and again only after there was room. A small real one where that can be mounted. */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLogger } from "@muster/runtime";
import { manualClock } from "@muster/runtime/internal";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { DiskWatch } from "../src/run/disk-watch.ts";

const mounted: string[] = [];
afterEach(() => {
  for (const path of mounted.splice(0)) spawnSync("umount", [path]);
});

/** A disk of its own; `null` without the right to mount one. */
async function smallDisk(): Promise<string | null> {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  const disk = join(path, "disk");
  mkdirSync(disk);
  if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=32m", "tmpfs", disk]).status !== 0) return null;
  mounted.push(disk);
  return disk;
}

describe("a small disk", () => {
  it("is told of while it is full, whoever notices, and again only after there was room", async (context) => {
    const disk = await smallDisk();
    if (disk === null) return context.skip("no right to mount a file system");
    const told: string[] = [];
    const clock = manualClock();
    const watch = new DiskWatch({ folders: [disk], clock, onFull: (detail) => told.push(detail) });
    onTestFinished(() => watch.close());
    const fill = join(disk, "fill");
    // What is written until nothing more fits is what a job does.
    const full = (): unknown => {
      try {
        for (;;) appendFileSync(fill, Buffer.alloc(65_536));
      } catch (error) {
        return error;
      }
    };
    clock.advance(5_000);
    expect([told, watch.trouble]).toEqual([[], null]);
    expect(full()).toMatchObject({ code: "ENOSPC" });
    clock.advance(5_000);
    const said = `the disk of ${disk} is full: 0 B left`;
    expect([told, watch.trouble]).toEqual([[said], said]);
    expect(watch.attempt(join(disk, "events.jsonl"), () => writeFileSync(join(disk, "events.jsonl"), "x"))).toBe(false);
    expect(told, "the same disk").toHaveLength(1);
    rmSync(fill);
    clock.advance(1_000);
    expect(watch.trouble).toBeNull();
    expect(watch.attempt(join(disk, "events.jsonl"), () => writeFileSync(join(disk, "events.jsonl"), "x"))).toBe(true);
    full();
    clock.advance(1_000);
    expect(told).toHaveLength(2);
  });
});

describe("without a look in between", () => {
  const setting = () => {
    const told: string[] = [];
    const watch = new DiskWatch({ folders: [], clock: manualClock(), onFull: (detail) => told.push(detail) });
    onTestFinished(() => watch.close());
    return { told, watch };
  };

  it("the file that could not be written is named", () => {
    const { told, watch } = setting();
    expect(watch.attempt("/dev/full", () => writeFileSync("/dev/full", "x"))).toBe(false);
    expect(told).toEqual([expect.stringMatching(/^\/dev\/full can not be written: ENOSPC: no space left on device/)]);
  });

  it("any other fault of writing is none of the disk", () => {
    const { told, watch } = setting();
    const path = "/nowhere/at/all";
    expect(() => watch.attempt(path, () => writeFileSync(path, "x"))).toThrow("ENOENT");
    expect(told).toEqual([]);
  });

  it("a log that can not be written ends nobody, and is named", () => {
    const { told, watch } = setting();
    const onFailed = (error: Error) => watch.failed("run.log", error);
    const logger = createLogger({ level: "info", destination: { path: "/dev/full", onFailed } });
    logger.info({}, "one");
    logger.info({}, "two");
    expect(told).toEqual([expect.stringContaining("run.log can not be written: ENOSPC")]);
  });
});
