/** The table of an agent: what a job has of it, and what does not go together. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadJob } from "../src/config/index.ts";
import { engines } from "./support/engines.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-agents-"));
afterAll(() => rmSync(folder, { recursive: true }));

function load(lines: string) {
  const file = join(folder, "job.toml");
  writeFileSync(file, `[job]\nname = "dates"\n[task]\nname = "dates"\n${lines}`);
  return loadJob({ file, env: {}, folder, describeTask: () => ({ vocab: 43, maxContext: 36 }), engines }).config;
}

test("a job without a command has no agent, and one with it has what nobody said, too", () => {
  expect(load("").rollout).toEqual({ generate: null, fanOut: 1, ranks: 1, toolParser: null });
  expect(load('[rollout.agent]\ncommand = "python3 agent.py"\ndirectory = "."').rollout.agent).toEqual({
    ...{ command: "python3 agent.py", directory: folder, environment: null, reward: "session" },
    ...{ atOnce: 4, memoryBytes: 2 ** 30, outputBytes: 2 ** 20 },
  });
});

test.each([
  [
    "a module beside it",
    `[rollout]\ngenerate = "${folder}"`,
    /rollout\.agent\.command.* and rollout\.generate.* are both set/,
  ],
  ["a reward of nobody", 'reward = "user"', /rollout\.agent\.reward = "user": expected one of "session"\|"task"/],
  ["none at once", "at_once = 0", /rollout\.agent\.at_once = 0/],
  [
    "longer than a hang",
    '[timing]\ngenerate = "30s"',
    /timing\.generate = "30s" must not be longer than health\.hung_min/,
  ],
])("%s is a fault that names its keys", (_, lines, fault) => {
  const agent = '[rollout.agent]\ncommand = "python3 agent.py"\n';
  expect(() => load(lines.startsWith("[rollout]") ? `${lines}\n${agent}` : `${agent}${lines}`)).toThrow(fault);
});
