import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeFolderSync, makeOwnFolderSync } from "../src/index.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "muster-folders-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("makeFolderSync", () => {
  test("makes what is missing, for its owner alone, and says what came first", () => {
    expect(makeFolderSync(join(root, "a", "b", "c"))).toBe(join(root, "a"));
    expect(makeFolderSync(join(root, "a", "b", "d"))).toBe(join(root, "a", "b", "d"));
    expect(makeFolderSync(join(root, "a", "b"))).toBeUndefined();
    expect(statSync(join(root, "a", "b", "c")).mode & 0o777).toBe(0o700);
  });

  test("names the folder that can not be made, also where folders can not be made at all", () => {
    writeFileSync(join(root, "file"), "");
    chmodSync(join(root, "file"), 0o600);
    expect(() => makeFolderSync(join(root, "file", "x"))).toThrow(/EEXIST|ENOTDIR/);
    expect(() => makeFolderSync("/proc/nope/runs")).toThrow("ENOENT: no such file or directory, mkdir '/proc/nope'");
  });
});

describe("makeOwnFolderSync", () => {
  const modeOf = (path: string): number => statSync(path).mode & 0o777;
  /** A folder of this user with a mode, whatever the umask is. */
  const folderOf = (mode: number): string => {
    const path = join(root, "own");
    mkdirSync(path);
    chmodSync(path, mode);
    return path;
  };

  test("makes a folder for its owner alone, and closes an own one to the reading of others", () => {
    makeOwnFolderSync(join(root, "a", "b"));
    expect(modeOf(join(root, "a", "b"))).toBe(0o700);
    const open = folderOf(0o755);
    makeOwnFolderSync(open);
    expect(modeOf(open)).toBe(0o700);
  });

  test("refuses one that others can write, a link, and one of another user", () => {
    const refusal = (path: string) => expect(() => makeOwnFolderSync(path));
    refusal(folderOf(0o770)).toThrow(/own can be written by others, so that others could read or replace/);
    symlinkSync(join(root, "own"), join(root, "link"));
    refusal(join(root, "link")).toThrow("is a link");
    const foreign = process.geteuid?.() === 0 ? join(root, "foreign") : "/usr";
    if (foreign !== "/usr") {
      mkdirSync(foreign, { mode: 0o755 });
      chownSync(foreign, 4_711, 4_711);
    }
    refusal(foreign).toThrow(/belongs to the user \d+, and this process runs as \d+/);
  });

  test("takes a folder in which nobody can replace what is another's, as the system's own for temporary files", () => {
    const shared = folderOf(0o1777);
    makeOwnFolderSync(shared);
    expect(modeOf(shared)).toBe(0o777);
  });
});
