/** The worker of the examples under every check of engines: each starts Python anew, which takes a tenth of a second. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import { beforeEach, describe, it } from "vitest";
import { engineChecks } from "../src/compliance/index.ts";
import { workerAdapterOf } from "../src/worker/index.ts";

const workerAdapter = workerAdapterOf(process.env);

const pathOf = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const hasPython = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status === 0;

describe("the worker examples/python-worker", () => {
  beforeEach((context) => context.skip(!hasPython, "python3 of 3.11 or newer is not installed"));

  const options = {
    command: `python3 '${pathOf("examples/python-worker/echo.py")}'`,
    environment: `'PYTHONPATH=${pathOf("python")}' PYTHONDONTWRITEBYTECODE=1`,
  };
  const checks = engineChecks({ adapter: workerAdapter, options, needs: needsOfTask(taskOf("dates")) });
  it.each(checks)("$says", ({ run }) => run());
});
