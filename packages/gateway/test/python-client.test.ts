import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pythonThatRuns } from "@muster/testkit";
import { expect, test } from "vitest";

const folder = join(dirname(fileURLToPath(import.meta.url)), "../../../python/muster_dcs");

/** One with PyTorch, where there is one: broadcasts over Gloo are tested only there. */
const oldest = pythonThatRuns("import torch") ?? "python3";
const newest = pythonThatRuns("from torch.distributed.fsdp import fully_shard") ?? oldest;

// Each of the tests is a sentence of its own; its output names the one that fails.
const run = (python: string, ...args: readonly string[]) => {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  expect(() => execFileSync(python, ["-m", "unittest", ...args], { cwd: folder, env, stdio: "pipe" })).not.toThrow();
};

test("the tests of the Python client pass", { timeout: 60_000 }, () => {
  run(oldest, "discover", "-s", "tests", "-t", ".");
});

test("broadcasts pass with a newer PyTorch, too", { timeout: 60_000 }, (context) => {
  context.skip(newest === oldest, "no other python3 here has a newer torch");
  run(newest, "tests.test_device_direct");
});
