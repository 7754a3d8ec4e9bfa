/** What a router has read is on the disk: a process that died may have written it and not have waited for that. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { SessionFiles } from "../src/sessions/session-files.ts";

const synced = vi.hoisted(() => [] as string[]);
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const open: typeof real.open = async (path, ...more) => {
    const file = await real.open(path, ...more);
    const sync = file.sync.bind(file);
    file.sync = () => sync().then(() => void synced.push(`${path}`));
    return file;
  };
  return { ...real, open };
});

test("what a process that died has written is on the disk before anybody is told of it", async () => {
  const directory = mkdtempSync(join(tmpdir(), "muster-sessions-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "a.jsonl");
  const json = JSON.stringify({ kind: "begin", atMs: Date.now(), metadata: {} });
  writeFileSync(path, `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`);
  const files = await SessionFiles.open(directory, { sessionsMax: 10, bytesMax: 1e6 });
  onTestFinished(() => files.close());
  await files.read("a");
  expect(synced).toEqual([path, directory]);
});
