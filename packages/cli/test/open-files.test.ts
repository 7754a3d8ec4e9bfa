import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { refuseFewFiles } from "../src/open-files.ts";

const muster = fileURLToPath(new URL("../bin/muster.mjs", import.meta.url));

test("a limit of open files that is too low is said with the way out, and not as a package that is missing", () => {
  const { status, stderr } = spawnSync("sh", [
    "-c",
    `ulimit -n 64; exec "${process.execPath}" "${muster}" config check`,
  ]);
  expect([status, String(stderr)]).toEqual([
    2,
    "muster: this process may have 64 files open, and needs 256 or more; raise the limit in this shell: ulimit -n 1024\n",
  ]);
});

test.each(["1024      1048576   files", "unlimited unlimited files"])("a limit of %s is enough", (limit) => {
  expect(() =>
    refuseFewFiles(`Max processes             9         9         processes\nMax open files            ${limit}\n`),
  ).not.toThrow();
});

test("a host that does not tell its limits is not refused", () => {
  expect(() => refuseFewFiles("")).not.toThrow();
});
