/** The tables of reward and reference workers: what a job has of it, and what does not go together. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadJob } from "../src/config/index.ts";
import { engines } from "./support/engines.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-scorers-"));
afterAll(() => rmSync(folder, { recursive: true }));

function load(reward: string, lines: string) {
  const file = join(folder, "job.toml");
  writeFileSync(file, `[job]\nname = "dates"\n[task]\nname = "dates"\n${reward}\n${lines}`);
  return loadJob({ file, env: {}, folder, describeTask: () => ({ vocab: 43, maxContext: 36 }), engines }).config;
}

const asked = 'reward = "worker"';
const worker = '[reward.worker]\ncommand = "python3 judge.py"\ndirectory = "."';

test("a job without a command has no worker, and one with it has what nobody said, too", () => {
  expect(load("", "").scorers).toBeUndefined();
  const { task, scorers } = load(asked, worker);
  expect(task.reward).toBe("worker");
  expect(scorers).toEqual({
    reward: {
      ...{ command: "python3 judge.py", directory: folder, environment: null, build: null, batch: 64 },
      ...{ startMs: 60_000, callMs: 10_000, silenceMs: 15_000, memoryBytes: 0, arenaBytes: 2 ** 24 },
    },
  });
});

test.each([
  [
    "no program",
    asked,
    "",
    /task\.reward = "worker" needs the program that judges, and reward\.worker\.command = "" names none/,
  ],
  [
    "a program that nobody asks",
    "",
    worker,
    /reward\.worker\.command = "python3 judge\.py" is set, and task\.reward = "exact-match" never asks it/,
  ],
  ["none in a batch", asked, `${worker}\nbatch = 0`, /reward\.worker\.batch = 0/],
  ["a region of nothing", asked, `${worker}\narena = "1KiB"`, /reward\.worker\.arena = "1KiB"/],
  [
    "longer than a hang",
    asked,
    `${worker}\ncall = "30s"`,
    /reward\.worker\.call = "30s" must not be longer than health\.hung_min/,
  ],
  [
    "longer than a lease",
    asked,
    `${worker}\ncall = "2m"`,
    /reward\.worker\.call = "2m" must be shorter than timing\.lease/,
  ],
  ["a key of nobody", asked, `${worker}\nretries = 3`, /reward\.worker\.retries/],
])("%s is a fault that names its keys", (_, reward, lines, fault) => {
  expect(() => load(reward, lines)).toThrow(fault);
});

const reference = '[reference.worker]\ncommand = "python3 reference.py"';
const inReward = '[training]\nkl_coefficient = 0.1\nkl_in = "reward"';

test("a reference worker goes with a divergence in the reward", () => {
  const { scorers } = load("", `${inReward}\n${reference}`);
  expect(scorers?.reward).toBeUndefined();
  expect(scorers?.reference).toMatchObject({ command: "python3 reference.py", batch: 64, callMs: 10_000 });
});

test.each([
  [
    "no divergence",
    reference,
    /reference\.worker\.command = "python3 reference\.py" has no effect with training\.kl_coefficient = 0/,
  ],
  [
    "a divergence in the loss",
    `[training]\nkl_coefficient = 0.1\n${reference}`,
    /with training\.kl_in = "loss" the loss needs those of its own engine/,
  ],
  [
    "a folder",
    `${inReward}\nreference = "."\n${reference}`,
    /reference\.worker\.command .* and training\.reference .* are both set/,
  ],
  [
    "longer than a hang",
    `${inReward}\n${reference}\ncall = "30s"`,
    /reference\.worker\.call = "30s" must not be longer than health\.hung_min/,
  ],
])("a reference worker with %s is a fault that names its keys", (_, lines, fault) => {
  expect(() => load("", lines)).toThrow(fault);
});
