/** What becomes of a run's broker whose disk is full: nobody gives it up, and once there is room it is started again. A small real disk where one can be mounted. */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLogger } from "@muster/runtime";
import { manualClock } from "@muster/runtime/internal";
import { makeTempDirectory } from "@muster/testkit";
import { expect, it, onTestFinished } from "vitest";
import { ServerKeeper } from "../src/run/server-keeper.ts";

/** A keeper of a server that only counts, on a disk of its own; `null` without the right to mount one. */
async function keeping() {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  const disk = join(path, "disk");
  mkdirSync(disk);
  if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=32m", "tmpfs", disk]).status !== 0) return null;
  onTestFinished(() => void spawnSync("umount", [disk]));
  const clock = manualClock();
  const said: string[] = [];
  const server = {
    starts: 0,
    trouble: null as string | null,
    restart: async () => {
      server.starts += 1;
      server.trouble = null;
    },
    storeTrouble: async () => server.trouble,
  };
  const keeper = new ServerKeeper({
    ...{ directory: disk, clock, logger: createLogger({ level: "silent" }) },
    onRestart: (detail) => said.push(detail),
    onGivenUp: (detail) => said.push(`given up: ${detail}`),
  });
  keeper.keep(server);
  onTestFinished(() => keeper.stop());
  const fill = () => {
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(join(disk, "filler"), Buffer.alloc((bavail - 1) * bsize));
  };
  const pass = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      clock.advance(1_000);
      // Looks read files, and restarts are awaited.
      for (let turn = 0; turn < 8; turn++) await new Promise(setImmediate);
    }
  };
  return { server, keeper, said, fill, makeRoom: () => rmSync(join(disk, "filler")), pass };
}

it("starts it again once when its disk was full and has room again", async ({ skip }) => {
  const given = await keeping();
  if (!given) return skip("no right to mount a file system");
  const { server, said, fill, makeRoom, pass } = given;
  await pass(20);
  expect(server.starts).toBe(0);
  fill();
  await pass(60);
  expect([server.starts, said]).toEqual([0, []]);
  makeRoom();
  await pass(20);
  expect([server.starts, said]).toEqual([1, ["nats-server takes nothing more: its disk was full"]]);
});

it("starts it again when its store takes nothing more, although nobody saw the disk full", async ({ skip }) => {
  const given = await keeping();
  if (!given) return skip("no right to mount a file system");
  const { server, said, pass } = given;
  await pass(20);
  server.trouble = "critical write error: disk quota exceeded";
  await pass(20);
  expect([server.starts, said]).toEqual([
    1,
    [`nats-server takes nothing more: critical write error: disk quota exceeded`],
  ]);
});

it("is over at once when it is stopped while the disk is full", async ({ skip }) => {
  const given = await keeping();
  if (!given) return skip("no right to mount a file system");
  const { server, keeper, fill, pass } = given;
  await pass(20);
  fill();
  keeper.ended("nats-server ended with code 1");
  await pass(60);
  // Nothing turns the clock on meanwhile.
  await keeper.stop();
  expect(server.starts).toBe(0);
});

it("waits with the start of one that ended on a full disk, for as long as it is full", async ({ skip }) => {
  const given = await keeping();
  if (!given) return skip("no right to mount a file system");
  const { server, keeper, said, fill, makeRoom, pass } = given;
  fill();
  await pass(20);
  keeper.ended("nats-server ended with code 1");
  await pass(600);
  expect([server.starts, said]).toEqual([0, ["nats-server ended with code 1"]]);
  makeRoom();
  await pass(30);
  expect(server.starts).toBe(1);
  expect(said.join()).not.toContain("given up");
});
