import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeFolder, makeFolderSync } from "../src/index.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "muster-folders-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe.each([
  ["makeFolder", makeFolder],
  ["makeFolderSync", async (path: string) => makeFolderSync(path)],
])("%s", (_, make) => {
  test("makes what is missing, for its owner alone, and says what came first", async () => {
    expect(await make(join(root, "a", "b", "c"))).toBe(join(root, "a"));
    expect(await make(join(root, "a", "b", "d"))).toBe(join(root, "a", "b", "d"));
    expect(await make(join(root, "a", "b"))).toBeUndefined();
    expect(statSync(join(root, "a", "b", "c")).mode & 0o777).toBe(0o700);
  });

  test("that several call at once makes it once", async () => {
    await Promise.all(Array.from({ length: 8 }, () => make(join(root, "x", "y", "z"))));
    expect(statSync(join(root, "x", "y", "z")).isDirectory()).toBe(true);
  });

  test("names the folder that can not be made, also where folders can not be made at all", async () => {
    writeFileSync(join(root, "file"), "");
    chmodSync(join(root, "file"), 0o600);
    await expect(make(join(root, "file", "x"))).rejects.toThrow(/EEXIST|ENOTDIR/);
    await expect(make("/proc/nope/runs")).rejects.toThrow("ENOENT: no such file or directory, mkdir '/proc/nope'");
  });
});
