import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { withLock } from "../../../scripts/lib/setup/lock.mjs";
import { root } from "../checks/repository.ts";

const pidMax = 4_194_304;

describe("the set-up lock", () => {
  let folder: string;
  let path: string;
  const never = new AbortController().signal;
  const options = () => ({ path, signal: never, onWait: () => {} });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "muster-lock-"));
    path = join(folder, "setup.lock");
    return () => rmSync(folder, { recursive: true, force: true });
  });

  it("names its owner while it is held and is gone afterwards", async () => {
    await withLock(options(), async () => expect(readFileSync(path, "utf8")).toContain(`"pid":${process.pid}`));
    expect(existsSync(path)).toBe(false);
  });

  it("is released when the work fails", async () => {
    await expect(withLock(options(), () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    expect(existsSync(path)).toBe(false);
  });

  it("lets one in at a time, in many processes at once", async () => {
    const log = join(folder, "log");
    const script = `
      import { appendFileSync } from "node:fs";
      import { withLock } from ${JSON.stringify(pathToFileURL(join(root, "scripts/lib/setup/lock.mjs")).href)};
      const signal = new AbortController().signal;
      await withLock({ path: ${JSON.stringify(path)}, signal, onWait() {} }, async () => {
        appendFileSync(${JSON.stringify(log)}, "in ");
        await new Promise((resolve) => setImmediate(resolve));
        appendFileSync(${JSON.stringify(log)}, "out ");
      });`;
    // A dead owner's lock lies there from the start, so that taking over is raced for too.
    writeFileSync(path, JSON.stringify({ pid: pidMax, startedAtMs: 0 }));
    const codes = await Promise.all(Array.from({ length: 6 }, () => exitCodeOf(["--input-type=module", "-e", script])));
    expect(codes).toEqual([0, 0, 0, 0, 0, 0]);
    expect(readFileSync(log, "utf8")).toBe("in out ".repeat(6));
  });

  it("is taken over from a process that is gone", async () => {
    writeFileSync(path, JSON.stringify({ pid: pidMax, startedAtMs: 0 }));
    expect(await withLock(options(), async () => "mine")).toBe("mine");
  });

  it("is taken over when nobody has touched it for long, whoever has the pid now", async () => {
    writeFileSync(path, JSON.stringify({ pid: process.pid, startedAtMs: 0 }));
    const longAgo = new Date(Date.now() - 61_000);
    utimesSync(path, longAgo, longAgo);
    expect(await withLock(options(), async () => "mine")).toBe("mine");
  });

  it("is waited for while its owner lives, until the wait is interrupted", async () => {
    writeFileSync(path, JSON.stringify({ pid: process.pid, startedAtMs: 0 }));
    const controller = new AbortController();
    const waitedFor: number[] = [];
    const onWait = (pid: number) => {
      waitedFor.push(pid);
      controller.abort(new Error("interrupted"));
    };
    await expect(withLock({ path, signal: controller.signal, onWait }, async () => "mine")).rejects.toThrow(
      "interrupted",
    );
    expect(waitedFor).toEqual([process.pid]);
  });

  it("is not waited for longer than the deadline", async () => {
    writeFileSync(path, JSON.stringify({ pid: process.pid, startedAtMs: 0 }));
    await expect(withLock({ ...options(), timeoutMs: 1 }, async () => "mine")).rejects.toThrow(`pid ${process.pid}`);
  });
});

function exitCodeOf(args: readonly string[]): Promise<number | null> {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return new Promise((resolve) => child.once("close", resolve));
}
