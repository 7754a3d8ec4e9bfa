import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { digestOf } from "@muster/collectives/internal";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const echo = fileURLToPath(new URL("../../examples/echo-engine/echo.mjs", import.meta.url));
const set = (...settings: readonly string[]): string[] => settings.flatMap((setting) => ["--set", setting]);

/** The echo engine's sampler, which has its weights in bfloat16 under another name, and writes down what it gets. */
const parrotOf = (seen: string): string => `
  import { appendFileSync } from "node:fs";
  import { engine as echo } from ${JSON.stringify(pathToFileURL(echo).href)};
  const widened = (halves) => new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  export const engine = (tools) => {
    const { openPolicy, describe, openRollout, ...sampler } = echo(tools);
    return {
      ...sampler,
      kind: "parrot",
      roles: ["rollout"],
      build: () => "parrot-2",
      describe(options, needs) {
        const { tensors: [{ shape }], ...described } = describe(options, needs);
        return {
          ...described,
          tensors: [{ name: "parrot.gain", dtype: "bf16", shape, offsetBytes: 0, sizeBytes: 2 * needs.vocab }],
          conversion: [{ kind: "rename", from: "echo.weight", to: "parrot.gain" }],
        };
      },
      async openRollout(options, opening) {
        const inner = await openRollout(options, opening);
        return {
          ...inner,
          async updateWeights({ version, bytes, copyTo }) {
            if (bytes !== 2 * opening.needs.vocab) throw new Error("these are not halves");
            const halves = new Uint16Array(opening.needs.vocab);
            await copyTo(new Uint8Array(halves.buffer));
            const floats = widened(halves);
            appendFileSync(${JSON.stringify(seen)}, JSON.stringify([...floats]) + "\\n");
            const whole = (into, from = 0) => into.set(new Uint8Array(floats.buffer, from, into.length));
            await inner.updateWeights({ version, via: "inline", bytes: 2 * bytes, copyTo: async (...into) => whole(...into) });
          },
        };
      },
    };
  };`;

test("engines of one's own run a whole job by configuration alone, trainers and samplers of two kinds, builds and weight formats", async () => {
  const reward = join(runs.path, "longer.mjs");
  writeFileSync(reward, "export default ({ responseIds }) => responseIds.length / 16;");
  const parrot = join(runs.path, "parrot.mjs");
  const seen = join(runs.path, "seen.jsonl");
  writeFileSync(parrot, parrotOf(seen));
  const own = [
    `engine.kind=${echo}`,
    `engine.rollout=${parrot}`,
    "engine.echo.eagerness=1.5",
    "weights.source=seed",
    "optimizer.lr=1", // bfloat16 shows what a step changes
    `task.reward=${reward}`,
  ];
  const run = await runs.start("echo", ...set(...own, "evaluation.every_steps=0", "job.steps=3", "replicas.policy=2"));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 3, ledger: { trained: 3 * 16 * 8, aborted: 0, quarantined: 0 } });
  expectBalanced(summary);
  const untrained = new Float32Array(43).fill(1.5);
  expect(summary.weights_hash).toMatch(/^xxh3b:[0-9a-f]{16}$/);
  expect(summary.weights_hash).not.toBe(digestOf(new Uint8Array(untrained.buffer)));
  expect(run.events("checkpoint.kept")).not.toEqual([]);
  // What a sampler got: the first weights as they are, the others rounded to the nearest bfloat16, and different from them.
  const got = readFileSync(seen, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as number[]);
  expect(got[0]).toEqual([...untrained]);
  expect(got.at(-1)).not.toEqual([...untrained]);
});
