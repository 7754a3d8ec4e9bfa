/** Supervised fine-tuning in virtual time: leases, votes, checkpoints and faults are those of every job. */
import { trainingDefaults } from "@muster/protocol";
import { expect, it } from "vitest";
import type { Scenario } from "../../src/cluster/scenario.ts";
import { drawScenario, type Profile } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

function supervised(seed: number, profile: Profile): Scenario {
  const { config, ...rest } = drawScenario(seed, profile);
  const batch = { ...config.batch, groupSize: 1 };
  return { ...rest, config: { ...config, batch, training: { ...trainingDefaults, algorithm: "sft" } } };
}

it.each<[Profile, number]>([
  ["quiet", 1],
  ["kills", 2],
  ["swarm", 4],
])(
  "a job that learns from answers keeps every invariant, one trajectory to a prompt (%s, seed %d)",
  { timeout: 60_000 },
  async (profile, seed) => {
    const { violations, end } = await runScenario(supervised(seed, profile));
    expect(violations).toEqual([]);
    expect(end).toMatchObject({ outcome: "done" });
  },
);
