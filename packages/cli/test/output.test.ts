import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory } from "@muster/testkit";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { buildOnce, root } from "./support/muster.ts";

const timeout = 60_000;
const bench = ["bench", "weights", "--world", "2", "--size", "1", "--rounds", "1", "--no-peers", "--json"];

beforeAll(buildOnce, 120_000);

type Outlet = "read" | "full" | "gone";

/** Runs a command with these outlets. @returns Its code, what was read, and what it left in the folder for temporary files. */
async function run(args: readonly string[], [stdout, stderr]: readonly [Outlet, Outlet]) {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, [join(root, "packages/cli/bin/muster.mjs"), ...args], {
    cwd: root,
    env: { ...process.env, TMPDIR: path },
    stdio: ["ignore", stdout === "full" ? full : "pipe", stderr === "full" ? full : "pipe"],
  });
  closeSync(full);
  let text = "";
  for (const [stream, outlet] of [[child.stdout, stdout] as const, [child.stderr, stderr] as const])
    if (outlet === "gone") stream?.destroy();
    else
      stream?.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
  const [code] = await once(child, "close");
  return { code, text, left: readdirSync(path) };
}

describe("a command whose output goes nowhere", { timeout }, () => {
  it.each([
    ["standard output", ["gone", "read"]],
    ["standard error", ["read", "gone"]],
  ] as const)("ends quietly and in order when the reader of %s has left", async (_, outlets) => {
    const { code, text, left } = await run(bench, outlets);
    expect(text).not.toMatch(/EPIPE|^muster: /m);
    expect(left).toEqual([]);
    expect(code).toBe(0);
  });

  it("says in one line that there is no room for it, fails, and leaves nothing behind", async () => {
    const { code, text, left } = await run(bench, ["full", "read"]);
    expect(text).toMatch(/^muster: standard output: no space left on device; .*\n$/m);
    expect(text).not.toMatch(/^ +at /m);
    expect(left).toEqual([]);
    expect(code).toBe(1);
  });

  it("does the same when it has nothing to end", async () => {
    const { code, text } = await run(["help"], ["full", "read"]);
    expect(text).toMatch(/^muster: standard output: no space left on device; .*\n$/);
    expect(code).toBe(1);
  });

  it("fails also when there is no room for what it would say about that", async () => {
    expect(await run(bench, ["read", "full"])).toMatchObject({ code: 1, left: [] });
  });

  it("keeps the code of a failure that nobody reads about", async () => {
    expect(await run(["nope"], ["read", "gone"])).toMatchObject({ code: 2, text: "" });
  });
});
