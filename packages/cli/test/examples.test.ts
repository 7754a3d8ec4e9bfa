/** The job files of `examples/` are sound, from the root of the repository, as `muster config check` says it. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { pythonThatRuns } from "@muster/testkit";
import { beforeAll, expect, test, vi } from "vitest";
import { buildOnce, root } from "./support/muster.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const torch = "muster_worker.torch_grpo";
const jobs = readdirSync(join(root, "examples"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".toml"))
  .map((file) => join("examples", file))
  .sort();

/** What `muster config check` does, in one process for all files at once, each twice: it is busy when answers come. Prints the faults of each. */
const program = `
const { loadJobFile } = await import(process.argv[1]);
const faults = {};
const check = (file) => loadJobFile({ file, env: process.env }).then(() => {}, (error) => { faults[file] = error.message; });
const files = process.argv.slice(2);
await Promise.all([...files, ...files].map(check));
console.log(JSON.stringify(faults));
`;

beforeAll(buildOnce);

test("the jobs of the examples are sound", () => {
  const hasTorch = pythonThatRuns("import torch") === "python3";
  const checked = jobs.filter((file) => hasTorch || !readFileSync(join(root, file), "utf8").includes(torch));
  expect(checked.length).toBeGreaterThanOrEqual(11);
  const loader = pathToFileURL(join(root, "packages/cli/dist/composition/job-file.js")).href;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program, loader, ...checked], {
    ...{ cwd: root, encoding: "utf8", timeout: 60_000 },
  });
  expect([JSON.parse(stdout || "null"), stderr]).toEqual([{}, ""]);
});
