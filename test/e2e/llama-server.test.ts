/**
 * A job whose samples come from llama.cpp's own server, which gets every version of the weights: what is rewarded is learned, also when the server is killed
 * in the middle. A reward that is learned in twenty steps, because each of the versions is a start of the server: about 25 s on two cores, and with a trainer
 * in PyTorch about 45 s. In continuous integration the number of the commit says which trainer it is.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";
import { python, torchTrainer } from "./support/torch.ts";
import { turn } from "./support/turn.ts";

vi.setConfig({ testTimeout: 150_000, hookTimeout: 30_000 });

const server =
  process.env.MUSTER_LLAMA_SERVER ?? fileURLToPath(new URL("../../.muster/llama/llama-server", import.meta.url));

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** Servers below a sampler. */
function serversOf(replica: number): readonly number[] {
  const children = readFileSync(`/proc/${replica}/task/${replica}/children`, "utf8").split(" ").filter(Boolean);
  return children.map(Number).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--alias"));
}

const trainers = ["the embedded engine", "PyTorch"] as const;
const chosen = turn === null ? trainers : [trainers[turn % 2] ?? trainers[0]];

test.for(chosen)(
  "llama-server draws for %s, is killed in the middle, and what is rewarded goes on being learned",
  async (trainer, context) => {
    if (!existsSync(server))
      return context.skip(`llama-server is missing (${server}); scripts/get-llama-server.sh .muster/llama fetches it`);
    if (trainer === "PyTorch" && python === undefined) return context.skip("no python3 here has torch");
    const reward = join(runs.path, "zeros.mjs");
    writeFileSync(reward, "export default ({ responseText: text }) => text.split('0').length / 12;");
    const command = `'${server}' -m {model} --host 127.0.0.1 --port {port} --alias {tag} -c 576 -np 16 -t 1 -fa off -ctk f32 -ctv f32 --log-disable`;
    const settings = [
      ...(trainer === "PyTorch" ? torchTrainer(runs.path, "described") : []),
      "engine.rollout=openai",
      `engine.openai.command=${command}`,
      "engine.openai.weights=gguf",
      `engine.openai.folder=${join(runs.path, `weights-${trainer.length}`)}`,
      "engine.openai.concurrency=16",
      "init_replicas.policy=1",
      "optimizer.lr=0.001",
      `task.reward=${reward}`,
      "evaluation.every_steps=0",
    ].flatMap((setting) => ["--set", setting]);
    const run = await runs.start(
      `llama-${trainer.length}`,
      "--steps",
      "20",
      "--policy",
      "1",
      "--rollout",
      "1",
      ...settings,
    );
    const rewards: number[] = [];
    const drift: number[] = [];
    await run.waitForEvent("step.committed", ({ step }) => step >= 5);
    const sampler = run.pidOf("rollout-0");
    let killed = 0;
    await vi.waitUntil(
      () => {
        for (const pid of serversOf(sampler)) {
          process.kill(pid, "SIGKILL");
          killed += 1;
        }
        return killed >= 3;
      },
      { timeout: 20_000, interval: 300 },
    );
    const summary = await run.ended();
    expect(summary).toMatchObject({ steps: 20, ledger: { trained: 20 * 16 * 8, aborted: 0, quarantined: 0 } });
    expectBalanced(summary);
    for (const line of readFileSync(join(run.directory, "metrics.jsonl"), "utf8").trim().split("\n")) {
      const { reward, clip_fraction: clipped } = JSON.parse(line) as { reward: number; clip_fraction: number };
      rewards.push(reward);
      drift.push(clipped);
    }
    const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
    // Learned from what the server drew; and what it drew was of the trainer's weights: otherwise ratios would leave the clip.
    expect(mean(rewards.slice(-4))).toBeGreaterThan(mean(rewards.slice(0, 4)) + 0.1);
    expect(mean(drift)).toBeLessThan(0.1);
  },
);
