/**
 * A program of the user trains and samples: in peace, and when its processes are killed under the replicas that use them. Three jobs with eight
 * processes of Python each: about 40 s on two cores.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { expectBalanced, jobFile, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

const hasPython = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status === 0;

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const pathOf = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

function settings(...more: readonly string[]): string[] {
  const reward = join(runs.path, "longer.mjs");
  writeFileSync(reward, "export default ({ responseIds }) => responseIds.length / 16;");
  const own = [
    "engine.kind=worker",
    `engine.worker.command=python3 '${pathOf("examples/python-worker/echo.py")}'`,
    `engine.worker.environment='PYTHONPATH=${pathOf("python")}' PYTHONDONTWRITEBYTECODE=1 'RUNS=${runs.path}'`,
    "weights.source=seed",
    `task.reward=${reward}`,
    "evaluation.every_steps=0",
  ];
  return [...own, ...more].flatMap((setting) => ["--set", setting]);
}

/** Processes of workers below a replica. */
function workersOf(replica: number): readonly number[] {
  const children = readFileSync(`/proc/${replica}/task/${replica}/children`, "utf8").split(" ").filter(Boolean);
  return children.map(Number).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("echo.py"));
}

function workersLeft(): readonly string[] {
  const environmentOf = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8");
    } catch {
      return ""; // ended meanwhile
    }
  };
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && environmentOf(pid).includes(`RUNS=${runs.path}`));
}

/** What a scorer in Python says of its build unless it says otherwise. */
function buildOf(path: string): string {
  const version = spawnSync("python3", ["-c", "import platform; print(platform.python_version())"], {
    encoding: "utf8",
  });
  const digest = createHash("sha256")
    .update(readFileSync(pathOf(path)))
    .digest("hex")
    .slice(0, 16);
  return `${digest}-python-${version.stdout.trim()}`;
}

/** Processes of reference policies. */
const referencesLeft = (): readonly string[] =>
  workersLeft().filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("reference.py"));

describe("a job whose engines are a program in Python", () => {
  beforeEach((context) => context.skip(!hasPython, "python3 of 3.11 or newer is not installed"));

  let quiet: string | null;

  test("runs by configuration alone", async () => {
    const run = await runs.start("quiet", "--steps", "12", "--policy", "2", ...settings());
    const summary = await run.ended();
    expect(summary).toMatchObject({ steps: 12, ledger: { trained: 12 * 16 * 8, aborted: 0, quarantined: 0 } });
    expectBalanced(summary);
    quiet = summary.weights_hash;
    expect(quiet).toMatch(/^xxh3b:/);
  });

  test("ends with the same weights when the process of a trainer and that of a sampler are killed", async () => {
    const run = await runs.start("killed", "--steps", "12", "--policy", "2", ...settings());
    await run.waitForEvent("step.committed", ({ step }) => step >= 2);
    for (const id of ["policy-0", "rollout-0"]) {
      const [worker = 0] = workersOf(run.pidOf(id));
      process.kill(worker, "SIGKILL");
      await run.waitForEvent("member.died", (event) => event.id === id);
    }
    const summary = await run.ended();
    expect(summary.weights_hash).toBe(quiet);
    expectBalanced(summary);
    await vi.waitUntil(() => workersLeft().length === 0, { timeout: 5_000 });
  });

  test("trains with a divergence from a reference policy that is a program, too, and which is killed", async () => {
    const reference = [
      "training.kl_coefficient=0.05",
      "training.kl_in=reward",
      `reference.worker.command=python3 '${pathOf("examples/python-worker/reference.py")}'`,
      `reference.worker.build=${buildOf("examples/python-worker/reference.py")}`,
      `reference.worker.environment='PYTHONPATH=${pathOf("python")}' PYTHONDONTWRITEBYTECODE=1 'RUNS=${runs.path}'`,
    ];
    const run = await runs.start("reference", "--steps", "5", "--policy", "2", ...settings(...reference));
    const still = await run.waitForEvent("step.committed").then(() => referencesLeft());
    expect(still).toHaveLength(2);
    process.kill(Number(still[0]), "SIGKILL");
    const summary = await run.ended();
    expectBalanced(summary);
    expect(run.events("member.died")).toEqual([]);
    expect(summary).toMatchObject({ steps: 5, ledger: { aborted: 0, quarantined: 0 } });
  });

  test("does not begin with a command that is none, and says what is wrong with it", async () => {
    const job = ["--job", "refused", ...settings("engine.worker.command=python3 /nowhere/worker.py")];
    const refused = await runs.muster("run", jobFile, ...job);
    const { code } = await refused.exited;
    expect(code).toBe(2);
    expect(refused.lines.join("\n")).toMatch(/can't open file '\/nowhere\/worker\.py'/);
  });
});
