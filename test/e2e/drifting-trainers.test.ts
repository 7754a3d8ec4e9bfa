/**
 * Trainers whose sums end with other bits in each process, as on GPUs: one candidate is committed at each step, also when the first rank dies.
 * Two whole jobs of thirty steps in real time: about 35 s on two cores.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { expectBalanced, jobFile, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const echo = pathToFileURL(fileURLToPath(new URL("../../examples/echo-engine/echo.mjs", import.meta.url))).href;

/** The echo engine with other last bits in each process: of the part named. */
function driftingEngine(part: "weights" | "optimizer"): string {
  const path = join(runs.path, `drifting-${part}.mjs`);
  writeFileSync(
    path,
    `import { engine as echo } from ${JSON.stringify(echo)};
    export const engine = (tools) => {
      const adapter = echo(tools);
      const openPolicy = async (...given) => {
        const exact = await adapter.openPolicy(...given);
        const stage = async (...of) => {
          const staged = await exact.stage(...of);
          const floats = new Float32Array(exact.candidate().${part}.buffer);
          for (let i = 0; i < floats.length; i++) floats[i] = floats[i] * (1 + (process.pid % 97) * 2 ** -20) + 1e-6 * (process.pid % 89);
          return staged;
        };
        return { ...exact, stage };
      };
      return { ...adapter, kind: "drifting", openPolicy, describe: (...of) => ({ ...adapter.describe(...of), deterministic: false }) };
    };`,
  );
  return path;
}

function settings(engine: string, agreement: string): string[] {
  const reward = join(runs.path, "longer.mjs");
  writeFileSync(reward, "export default ({ responseIds }) => responseIds.length / 16;");
  const own = [`engine.kind=${engine}`, `job.agreement=${agreement}`, "weights.source=seed", `task.reward=${reward}`];
  return [...own, "batch.minibatches=1", "evaluation.every_steps=0", "checkpoint.every_steps=10"].flatMap((setting) => [
    "--set",
    setting,
  ]);
}

test.each([
  ["weights", "optimizer"],
  ["leader", "weights"],
] as const)(
  "a job whose trainers agree on %s goes on when their %s drift and the first rank is killed",
  async (agreement, part) => {
    const engine = driftingEngine(part);
    const run = await runs.start(agreement, "--steps", "30", "--policy", "3", ...settings(engine, agreement));
    await run.waitForEvent("step.committed", (event) => (event.drifted ?? 0) > 0);
    const [first = ""] = run.events("mesh.changed").at(-1)?.members ?? [];
    process.kill(run.pidOf(first), "SIGKILL");
    await run.waitForEvent("member.died", ({ id }) => id === first);
    const summary = await run.ended();
    expect(summary).toMatchObject({ steps: 30, ledger: { trained: 30 * 16 * 8 } });
    expectBalanced(summary);
    expect(run.events("alarm.raised").filter(({ alarm }) => alarm === "divergence")).toEqual([]);
  },
);

test("an engine whose bits are its own is refused where all bits must agree, before anything runs", async () => {
  const job = ["--job", "refused", ...settings(driftingEngine("weights"), "state")];
  const refused = await runs.muster("run", jobFile, ...job);
  const { code } = await refused.exited;
  expect(code).toBe(2);
  expect(refused.lines.join("\n")).toMatch(/job\.agreement.*state/);
  expect(existsSync(join(runs.path, "refused"))).toBe(false);
});
