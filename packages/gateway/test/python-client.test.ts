import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pythonThatRuns } from "@muster/testkit";
import { expect, test } from "vitest";

const folder = join(dirname(fileURLToPath(import.meta.url)), "../../../python/muster_dcs");

/** One with PyTorch, where there is one: broadcasts over Gloo are tested only there. */
const python = pythonThatRuns("import torch") ?? "python3";

// Each of its tests is a sentence of its own; its output names the one that fails.
test("the tests of the Python client pass", { timeout: 60_000 }, () => {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const args = ["-m", "unittest", "discover", "-s", "tests", "-t", "."];
  expect(() => execFileSync(python, args, { cwd: folder, env, stdio: "pipe" })).not.toThrow();
});
