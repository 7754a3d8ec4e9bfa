/** Settings of a job whose trainers are the PyTorch worker. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pythonThatRuns } from "@muster/testkit";
import { expect } from "vitest";

const pathOf = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** A python3 that has torch; undefined where there is none. */
export const python = pythonThatRuns("import torch");

/** A python3 whose torch shares a model among processes. */
export const pythonWithFsdp = pythonThatRuns("from torch.distributed.fsdp import fully_shard");

/** A python3 that has transformers, too. */
export const pythonWithTransformers = pythonThatRuns("import torch, transformers");

/**
 * Has the worker describe its model, in a file of `folder`.
 *
 * @param more - Further arguments of the worker.
 * @param program - The python3 that it runs in.
 * @returns `key=value` as `--set` takes them; the sampler is another engine.
 */
export function torchTrainer(
  folder: string,
  name: string,
  more: readonly string[] = [],
  program = python,
): readonly string[] {
  const device = process.env.MUSTER_TEST_TORCH_DEVICE ?? "cpu";
  const model = ["--model", pathOf("jobs/warm-start/dates"), "--device", device];
  const trainer = [String(program), "-m", "muster_worker.torch_grpo", ...model, ...more];
  const env = { ...process.env, PYTHONPATH: pathOf("python"), PYTHONDONTWRITEBYTECODE: "1" };
  const description = join(folder, `${name}.json`);
  const words = ["worker", "describe", "--out", description, "--", ...trainer];
  expect(spawnSync(process.execPath, [pathOf("packages/cli/bin/muster.mjs"), ...words], { env }).status).toBe(0);
  return [
    "engine.kind=worker",
    `engine.worker.command=${trainer.map((word) => `'${word}'`).join(" ")}`,
    `engine.worker.environment='PYTHONPATH=${env.PYTHONPATH}' PYTHONDONTWRITEBYTECODE=1`,
    `engine.worker.description=${description}`,
  ];
}
