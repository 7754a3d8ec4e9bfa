/** The price of faults: a job that is killed, frozen and cut by a seeded plan, against the same job in peace; the weights must be equal. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const about = "steps under faults against steps in peace, with the same weights";

const muster = fileURLToPath(new URL("../packages/cli/bin/muster.mjs", import.meta.url));
const seeds = [7, 11];
const small = ["batch.groups_per_step=16", "evaluation.prompts=64", "checkpoint.every_steps=10", "optimizer.lr=0.0003"];
const settings = small.flatMap((one) => ["--set", one]);

export async function* run() {
  const runs = await mkdtemp(join(tmpdir(), "muster-bench-"));
  try {
    const ratios = [];
    for (const seed of seeds) {
      const args = [
        "chaos",
        "--minutes",
        "0.5",
        "--seed",
        String(seed),
        "--runs",
        runs,
        "--json",
        "--quiet",
        ...settings,
      ];
      // A run that lost, doubled or changed anything ends with another code, and the benchmark with it.
      const { stdout } = await promisify(execFile)(process.execPath, [muster, ...args], { maxBuffer: 1e7 });
      const result = JSON.parse(stdout.trim().split("\n").at(-1) ?? "{}");
      ratios.push(1 / result.goodput);
    }
    const ratio = ratios.reduce((sum, one) => sum + one, 0) / ratios.length;
    const spread = (Math.max(...ratios) - Math.min(...ratios)) / 2 / ratio;
    yield {
      name: "time of a step under faults",
      against: "in peace",
      ours: ratio,
      reference: 1,
      unit: "",
      ratio,
      spread,
    };
  } finally {
    await rm(runs, { recursive: true, force: true });
  }
}
