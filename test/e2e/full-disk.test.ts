/**
 * A job whose disk is full, on a file system of its own that is really full. Whoever looks is told which disk and what happens now; nothing is
 * lost, and the job goes on by itself once there is room, or later with the command that it printed. About 20 s: thirty steps, twice on a full disk.
 */
import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type ActorProcess, type JobRun, makeTempDirectory, spawnMuster, summaryOf, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, jobFile, nothingLeft } from "./support/small-job.ts";

const job = "full";
const steps = 30;

let disk: { readonly path: string; close(): Promise<void> } | null = null;
beforeAll(async () => {
  const folder = await makeTempDirectory();
  const path = join(folder.path, "disk");
  mkdirSync(path);
  const isMounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=96m", "tmpfs", path]).status === 0;
  disk = isMounted
    ? {
        path,
        async close() {
          spawnSync("umount", ["-l", path]);
          await folder.remove();
        },
      }
    : null;
  if (!disk) await folder.remove();
});

const small = [
  ...["batch.groups_per_step=16", "evaluation.prompts=64", "checkpoint.every_steps=4"],
  ...["timing.heartbeat_interval=400ms", "timing.suspect_after=2s", "timing.dead_after=5s"],
];

const started: ActorProcess[] = [];
afterAll(async () => {
  for (const each of started) await each.kill();
  await disk?.close();
});

async function start(runs: string, ...args: readonly string[]): Promise<ActorProcess> {
  const run = await spawnMuster(["run", "--runs", runs, ...args]);
  started.push(run);
  return run;
}

/** Writes until nothing more fits. @returns Makes room again. */
function fill(folder: string): () => void {
  const path = join(folder, "filler");
  const file = openSync(path, "w");
  for (let bytes = 1024 ** 2; bytes >= 4096; ) {
    try {
      writeSync(file, Buffer.alloc(bytes));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      bytes /= 2;
    }
  }
  closeSync(file);
  return () => rmSync(path);
}

test("a full disk is named in one sentence, loses nothing, and the job goes on when there is room, or when it is taken up again", async ({
  skip,
}) => {
  if (!disk) return skip("no right to mount a file system: no disk is filled");
  const { path: runs } = disk;
  const directory = join(runs, job);
  const settings = small.flatMap((set) => ["--set", set]);
  const first = await start(runs, "--job", job, jobFile, "--steps", String(steps), ...settings);
  const tail = (of: ActorProcess) => () => of.lines.slice(-12);
  const stepOf = (of: ActorProcess): number =>
    Math.max(0, ...of.lines.flatMap((line) => Number(/^step +(\d+)\//.exec(line)?.[1] ?? 0)));
  const reach = (of: ActorProcess, step: number) =>
    waitFor(() => stepOf(of) >= step, { what: `step ${step}`, timeoutMs: 60_000, detail: tail(of) });
  await reach(first, 3);

  let makeRoom = fill(runs);
  const sentence = /! the disk of \S+ is full: .* left; make room and the job goes on; nothing is lost/;
  await first.waitForLine(sentence, 20_000);
  makeRoom();
  await reach(first, Math.min(steps - 9, stepOf(first) + 6));

  makeRoom = fill(runs);
  await waitFor(() => first.lines.filter((line) => sentence.test(line)).length === 2, {
    what: "that the disk is full again",
    timeoutMs: 20_000,
    detail: tail(first),
  });
  first.signal("SIGINT");
  expect((await first.exited).code, tail(first)().join("\n")).toBe(130);
  expect(first.lines.some((line) => line.includes(`run --job ${job}`))).toBe(true);
  expect(first.lines.filter((line) => /^\s+at /.test(line))).toEqual([]);
  await nothingLeft(runs);

  makeRoom();
  const second = await start(runs, "--job", job);
  expect((await second.exited).code, tail(second)().join("\n")).toBe(0);
  await nothingLeft(runs);
  const summary = summaryOf({ directory });
  expect(summary.steps).toBe(steps);
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining({ directory } as JobRun));
}, 180_000);

test("a job that begins on a full disk is refused, or fails, with the disk in its one sentence", async ({ skip }) => {
  if (!disk) return skip("no right to mount a file system: no disk is filled");
  const { path: runs } = disk;
  const makeRoom = fill(runs);
  const run = await start(runs, jobFile, "--job", "late", "--steps", "3", "--quiet");
  const { code } = await run.exited;
  makeRoom();
  expect(code).toBeGreaterThan(0);
  expect(run.lines.join("\n")).toMatch(/no space left on device|disk .* is full/i);
  expect(run.lines.filter((line) => /^\s+at /.test(line))).toEqual([]);
  await nothingLeft(runs);
}, 60_000);
