/** How a router follows the files of samplers that serve: what cannot be read just now is not gone. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger } from "@muster/base";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { followServing, writeServing } from "../src/job/serving-files.ts";

const url = "http://127.0.0.1:31001";
let directory: TempDirectory;
let calls: string[];
let stop: () => void;

beforeEach(async () => {
  vi.useFakeTimers();
  directory = await makeTempDirectory();
  calls = [];
  stop = () => {};
});
afterEach(async () => {
  stop();
  vi.useRealTimers();
  await directory.remove();
});

function follow(): void {
  const table = {
    add: (added: string) => calls.push(`add ${added}`) > 0,
    remove: (removed: string) => calls.push(`remove ${removed}`) > 0,
  };
  stop = followServing(directory.path, table, { logger: silentLogger });
}

it("a sampler comes with its file, is new with its next life, and goes with its file", () => {
  follow();
  const takeBack = writeServing(directory.path, "rollout-1", { url, incarnation: "a" });
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`]);
  writeServing(directory.path, "rollout-1", { url, incarnation: "b" });
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`, `add ${url}`]);
  takeBack();
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`, `add ${url}`, `remove ${url}`]);
});

it("a file that is half written takes no sampler away", () => {
  writeServing(directory.path, "rollout-1", { url, incarnation: "a" });
  follow();
  writeFileSync(join(directory.path, "serving", "rollout-1.json"), '{"url":');
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`]);
  writeServing(directory.path, "rollout-1", { url, incarnation: "a" });
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`]);
});

it("a folder that cannot be read, as without free file descriptors, takes no sampler away and ends no router", () => {
  writeServing(directory.path, "rollout-1", { url, incarnation: "a" });
  follow();
  const folder = join(directory.path, "serving");
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "");
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`]);
  rmSync(folder);
  mkdirSync(folder);
  vi.advanceTimersByTime(1_100);
  expect(calls).toEqual([`add ${url}`, `remove ${url}`]);
});
