/** A program of the user judges, in the worker protocol: in peace, and when it is killed while it does. Two jobs: about 15 s on two cores. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
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

const settings = (...more: readonly string[]): string[] => {
  const own = [
    "task.reward=worker",
    "reward.worker.command=python3 judge.py",
    `reward.worker.directory=${pathOf("examples/reward-worker")}`,
    `reward.worker.environment='PYTHONPATH=${pathOf("python")}' PYTHONDONTWRITEBYTECODE=1 'RUNS=${runs.path}'`,
  ];
  return [...own, ...more].flatMap((setting) => ["--set", setting]);
};

/** Processes of the reward, by what stands in their environment. */
function judges(): readonly number[] {
  const environmentOf = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8");
    } catch {
      return ""; // ended meanwhile
    }
  };
  const pids = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid));
  return pids.filter((pid) => environmentOf(pid).split("\0").includes(`RUNS=${runs.path}`)).map(Number);
}

describe("a job whose reward is a worker in Python", () => {
  beforeEach((context) => context.skip(!hasPython, "python3 of 3.11 or newer is not installed"));

  let quiet: string | null;

  test("runs by configuration alone, with one process for each sampler", async () => {
    const run = await runs.start("quiet", "--steps", "8", "--rollout", "1", ...settings());
    await run.waitForEvent("step.committed");
    expect(judges()).toHaveLength(1);
    const summary = await run.ended();
    expect(summary).toMatchObject({ steps: 8, ledger: { trained: 8 * 16 * 8, aborted: 0, quarantined: 0 } });
    expectBalanced(summary);
    const [first] = run.events("step.committed");
    const [form, right] = first?.components ?? [];
    expect(form).toMatchObject({ name: "form", count: 16 * 8, most: 1 });
    expect(right).toMatchObject({ name: "right", count: 16 * 8 });
    expect(first?.reward).toBeCloseTo((right?.mean ?? 0) + 0.1 * ((form?.mean ?? 0) - (right?.mean ?? 0)), 6);
    const [sample] = readFileSync(join(run.directory, "samples.jsonl"), "utf8").split("\n", 1);
    const shown = JSON.parse(sample ?? "") as { answer: string; components: object; metadata: object };
    expect(shown.metadata).toEqual({ expected: shown.answer });
    expect(Object.keys(shown.components)).toEqual(["form", "right"]);
    quiet = summary.weights_hash;
    expect(quiet).toMatch(/^xxh3b:/);
    await vi.waitUntil(() => judges().length === 0, { timeout: 5_000 });
  });

  test("ends with the same weights when it is killed again and again, and no replica dies of that", async () => {
    const run = await runs.start("killed", "--steps", "8", ...settings());
    for (const step of [1, 3, 5]) {
      await run.waitForEvent("step.committed", (event) => event.step >= step);
      await vi.waitUntil(() => judges().length > 0, { timeout: 10_000 });
      for (const pid of judges()) process.kill(pid, "SIGKILL");
    }
    const summary = await run.ended();
    expect(summary.weights_hash).toBe(quiet);
    expect(summary).toMatchObject({ ledger: { aborted: 0, quarantined: 0 } });
    expectBalanced(summary);
    expect(run.events("member.died")).toEqual([]);
    await vi.waitUntil(() => judges().length === 0, { timeout: 5_000 });
  });

  test("does not begin with a program that is no reward, and says what it is", async () => {
    const echo = `reward.worker.command=python3 ${pathOf("examples/python-worker/echo.py")}`;
    const refused = await runs.muster("run", jobFile, "--job", "refused", ...settings(echo));
    const { code } = await refused.exited;
    expect(code).toBe(2);
    expect(refused.lines.join("\n")).toMatch(/the worker says that it is policy and rollout, and not reward/);
  });
});
