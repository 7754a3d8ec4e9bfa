// Trains the warm start of a task and writes it as a Hugging Face folder. Same seed and engine build: same bytes.
// Usage: node packages/engine/scripts/warm-start.mjs <task> [--out <folder>] [--seed <n>] [--steps <n>] [--check]
// With --check nothing is written: the bytes are compared with the shipped folder; exit status 1 when they differ.
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { taskOf } from "@muster/data";
import { createEmbeddedRolloutEngine, evaluate, saveHfFolder, warmStart } from "../dist/embedded/index.js";
import { rewardOf } from "../dist/internal.js";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: "string" },
    seed: { type: "string", default: "1" },
    steps: { type: "string" },
    check: { type: "boolean", default: false },
  },
});
const task = taskOf(positionals[0] ?? "");
const shipped = fileURLToPath(new URL(`../../../jobs/warm-start/${task.name}`, import.meta.url));
const scratch = values.check ? await mkdtemp(join(tmpdir(), "muster-warm-start-")) : null;
const out = scratch ?? values.out ?? shipped;

const started = performance.now();
const { model, weights } = await warmStart({
  task,
  seed: Number(values.seed),
  ...(values.steps ? { steps: Number(values.steps) } : {}),
  onStep: (step, loss) => {
    if (step % 50 === 0) console.log(`update ${step}: loss ${loss.toFixed(4)}`);
  },
});
const seconds = (performance.now() - started) / 1000;
await saveHfFolder(out, model, weights);

const engine = createEmbeddedRolloutEngine({ model });
await engine.updateWeights({ version: 0, via: "disk", path: out });
const held = { task, reward: rewardOf("exact-match"), count: 512, signal: new AbortController().signal };
const [greedy, sampled] = [
  await evaluate(engine, { ...held, temperature: 0 }),
  await evaluate(engine, { ...held, temperature: 1 }),
];
const digest = createHash("sha256")
  .update(await readFile(join(out, "model.safetensors")))
  .digest("hex");
console.log(
  `${task.name}: ${seconds.toFixed(1)} s; held-out exact match ${greedy.toFixed(3)} greedy, ${sampled.toFixed(3)} sampled`,
);
console.log(`${engine.info().build}  sha256 of model.safetensors ${digest}`);

if (scratch) {
  const files = ["config.json", "model.safetensors"];
  const equal = await Promise.all(
    files.map(async (file) => (await readFile(join(out, file))).equals(await readFile(join(shipped, file)))),
  );
  await rm(scratch, { recursive: true });
  for (const [i, file] of files.entries()) {
    console.log(`${file}: ${equal[i] ? "equal to" : "DIFFERS from"} the shipped file`);
  }
  process.exitCode = equal.every(Boolean) ? 0 : 1;
}
