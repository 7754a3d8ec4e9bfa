/** Above 20 s: nothing shorter than forty steps of three algorithms shows that they learn. It is arithmetic throughout; times are for busy machines. */
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { taskOf } from "@muster/data";
import { algorithmDefaults, trainingDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { type LocalOptions, trainLocally } from "../src/embedded/index.ts";
import { rewardOf } from "../src/internal.ts";
import { clock, quiet } from "./rollout-fixture.ts";

const options: LocalOptions = {
  task: taskOf("dates"),
  reward: rewardOf("exact-match"),
  folder: fileURLToPath(new URL("../../../jobs/warm-start/dates", import.meta.url)),
  seed: 1,
  steps: 40,
  groupsPerStep: 48,
  groupSize: 8,
  minibatches: 2,
  microShards: 4,
  temperature: 1,
  clip: { clipLow: 0.2, clipHigh: 0.28 },
  optimizer: { lr: 5e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 1, warmupSteps: 5 },
  rewardTimeoutMs: 5000,
  clock,
  signal: quiet(),
};

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe("training in one process", () => {
  it("raises the reward", { timeout: 30_000 }, async () => {
    const { reports } = await trainLocally(options);
    const rewards = reports.map((report) => report.reward);
    expect(mean(rewards.slice(-8)) - mean(rewards.slice(0, 8))).toBeGreaterThan(0.08);
  });

  it.each<[string, Partial<LocalOptions>]>([
    [
      "gspo",
      { clip: algorithmDefaults.gspo, training: { ...trainingDefaults, algorithm: "gspo", aggregation: "sequence" } },
    ],
    [
      "reinforce++ beside a reference policy",
      { training: { ...trainingDefaults, algorithm: "reinforce++", klCoefficient: 0.01, klIn: "reward" } },
    ],
  ])("raises the reward with %s", { timeout: 120_000 }, async (_, change) => {
    // Twice the rate: forty steps of these rise by little else, and prompts alone make as much of a difference.
    const optimizer = { ...options.optimizer, lr: 1e-3 };
    const { reports } = await trainLocally({ ...options, optimizer, ...change });
    const rewards = reports.map((report) => report.reward);
    expect(mean(rewards.slice(-8)) - mean(rewards.slice(0, 8))).toBeGreaterThan(0.05);
  });

  it("ends with the same bits each time, and with others for another seed", { timeout: 30_000 }, async () => {
    const digest = async (change: Partial<LocalOptions>): Promise<string> => {
      const { weights } = await trainLocally({ ...options, steps: 2, groupsPerStep: 8, ...change });
      return createHash("sha256").update(weights).digest("hex");
    };
    const first = await digest({});
    expect(await digest({})).toBe(first);
    expect(await digest({ seed: 2 })).not.toBe(first);
  });
});
