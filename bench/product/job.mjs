/** Runs a job with a model of a quarter of a gigabyte through the command line, and reads from its logs how each version went its way. */
import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const muster = fileURLToPath(new URL("../../packages/cli/bin/muster.mjs", import.meta.url));
const deadlineMs = 300_000;

/**
 * 67 million parameters in 32 bits; so few samples that a step is little else than the way of the weights.
 *
 * @param {number} rollouts @param {number} steps
 */
const jobOf = (rollouts, steps) => `
[job]
name = "product"
steps = ${steps}
[replicas]
policy = 1
rollout = ${rollouts}
checkpoint = 0
[init_replicas]
policy = 1
rollout = ${rollouts}
[task]
name = "addition"
[model]
hidden = 512
layers = 16
heads = 8
kv_heads = 8
ffn = 2048
[weights]
source = "seed:1"
[batch]
groups_per_step = 1
group_size = 2
minibatches = 1
micro_shards = 1
[sampling]
max_new_tokens = 2
[optimizer]
weight_decay = 0.1
[evaluation]
every_steps = 0
prompts = 1
[checkpoint]
every_steps = 0
`;

/**
 * @typedef {{ version: number, seconds: number }} Passage How long it took from the engine of the trainer to the engines of all samplers.
 * @param {{ rollouts: number, steps: number }} size
 * @returns {Promise<{ passages: Passage[], sections: Record<string, number> }>} All versions but the first; bytes of the sections.
 */
export async function runJob({ rollouts, steps }) {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-"));
  try {
    const file = join(folder, "job.toml");
    await writeFile(file, jobOf(rollouts, steps));
    const args = [muster, "run", file, "--quiet", "--job", "product", "--runs", folder];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"], timeout: deadlineMs });
    const code = await new Promise((resolve, reject) => child.once("error", reject).once("exit", resolve));
    if (code !== 0) throw new Error(`the job ended with code ${code}`);
    return {
      passages: passagesOf(await linesOf(join(folder, "product", "logs")), rollouts),
      sections: await sizesOf(join(folder, "product")),
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** @param {string} logs */
async function linesOf(logs) {
  const files = (await readdir(logs)).filter((name) => /^(policy|rollout)-\d+\.log$/.test(name));
  const texts = await Promise.all(files.map((name) => readFile(join(logs, name), "utf8")));
  return texts.flatMap((text) =>
    text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  );
}

/**
 * A sampler names the version when its bytes are there, and says that it serves it with its next `weights.pulled`.
 *
 * @param {readonly any[]} lines Of the logs. @param {number} rollouts
 * @returns {Passage[]}
 */
function passagesOf(lines, rollouts) {
  const begun = new Map();
  const served = new Map();
  const arriving = new Map();
  for (const { time, msg, kind, replica, version, durationMs } of lines) {
    const atMs = Date.parse(time);
    if (msg === "weights published") begun.set(version, atMs - durationMs);
    else if (msg === "weights arrived") arriving.set(replica, version);
    else if (kind === "weights.pulled")
      served.set(arriving.get(replica), [...(served.get(arriving.get(replica)) ?? []), atMs]);
  }
  const whole = [...begun].filter(([version]) => version > 0 && served.get(version)?.length === rollouts);
  return whole.map(([version, atMs]) => ({ version, seconds: (Math.max(...served.get(version)) - atMs) / 1000 }));
}

/** @param {string} run */
async function sizesOf(run) {
  const events = (await readFile(join(run, "events.jsonl"), "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const { sections } = events.find(({ kind }) => kind === "step.committed").body;
  /** @type {readonly { name: string, bytes: number }[]} */
  const known = sections;
  return Object.fromEntries(known.map(({ name, bytes }) => [name, bytes]));
}
