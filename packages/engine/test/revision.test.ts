import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { taskOf } from "@muster/data";
import { embeddedBuild, trainLocally } from "@muster/engine/embedded";
import { rewardOf } from "@muster/engine/internal";
import { expect, it } from "vitest";

it("computes the bits that its build name stands for", async () => {
  const { weights } = await trainLocally({
    task: taskOf("dates"),
    reward: rewardOf("exact-match"),
    folder: fileURLToPath(new URL("../../../jobs/warm-start/dates", import.meta.url)),
    seed: 3,
    steps: 2,
    groupsPerStep: 12,
    groupSize: 4,
    minibatches: 2,
    microShards: 4,
    temperature: 1,
    maxNewTokens: 16,
    clip: { clipLow: 0.2, clipHigh: 0.28 },
    optimizer: {
      lr: 1e-3,
      finalRatio: 0.1,
      warmupSteps: 1,
      beta1: 0.9,
      beta2: 0.99,
      epsilon: 1e-8,
      weightDecay: 0,
      clipNorm: 1,
    },
    rewardTimeoutMs: 5_000,
    clock: { now: () => performance.now(), after: () => () => {} },
    signal: new AbortController().signal,
  });
  const digest = createHash("sha256").update(weights).digest("hex").slice(0, 16);
  // Other bits? Then raise `algorithmsRevision` in embedded/core.ts and write the new line here.
  expect(`${embeddedBuild()} ${digest}`).toMatchInlineSnapshot(`"embedded-wasm-fbe5f76dc82e-r2 91cce64d52c58cd3"`);
});
