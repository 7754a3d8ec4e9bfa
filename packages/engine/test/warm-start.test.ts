import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { taskOf } from "@muster/data";
import { describe, expect, it } from "vitest";
import {
  createEmbeddedRolloutEngine,
  defaultModelOf,
  evaluate,
  loadHfFolder,
  warmStart,
} from "../src/embedded/index.ts";
import { rewardOf } from "../src/internal.ts";
import { quiet } from "./rollout-fixture.ts";

const shipped = (name: string): string => fileURLToPath(new URL(`../../../jobs/warm-start/${name}`, import.meta.url));

describe("a warm start", () => {
  it("has the same bits each time, other bits for another seed, and a falling loss", async () => {
    const run = async (seed: number) => {
      const losses: number[] = [];
      const { weights } = await warmStart({
        task: taskOf("addition"),
        seed,
        steps: 25,
        onStep: (_, loss) => losses.push(loss),
      });
      return { digest: createHash("sha256").update(weights).digest("hex"), losses };
    };
    const first = await run(1);
    expect(await run(1)).toEqual(first);
    expect((await run(2)).digest).not.toBe(first.digest);
    expect(first.losses.at(-1)!).toBeLessThan(0.9 * first.losses[0]!);
  });
});

describe.each([
  ["dates", 0.35, 0.7],
  ["addition", 0.4, 0.9],
])("the shipped model of %s", (name, low, high) => {
  it("knows part of its task: enough to find rewards, not so much that nothing is left to learn", async () => {
    const { model } = await loadHfFolder(shipped(name));
    const task = taskOf(name);
    expect(model).toEqual(defaultModelOf(task));
    const engine = createEmbeddedRolloutEngine({ model });
    await engine.updateWeights({ version: 0, via: "disk", path: shipped(name) });
    const share = await evaluate(engine, {
      task,
      reward: rewardOf("exact-match"),
      count: 256,
      temperature: 0,
      signal: quiet(),
    });
    expect(share).toBeGreaterThan(low);
    expect(share).toBeLessThan(high);
  });

  it("is the file that its README describes", async () => {
    const digest = createHash("sha256")
      .update(await readFile(`${shipped(name)}/model.safetensors`))
      .digest("hex");
    expect(await readFile(`${shipped(name)}/README.md`, "utf8")).toContain(digest);
  });
});
