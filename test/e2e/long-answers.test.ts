/**
 * Answers of 32,768 tokens: groups of megabytes travel in pieces, and the death of who draws them costs what it drew since its last save. Takes more
 * than 20 s: two jobs, whose answers take a second each so that a kill meets them in the middle.
 */
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decodeMessage } from "@muster/protocol";
import { type JobRun, startJobRun } from "@muster/testkit";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { connectAs } from "./support/broker.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 30_000 });

const tokens = 32_768;
const groupSize = 16;

let runs: Runs;
let settings: readonly string[];
beforeAll(async () => {
  runs = await openRuns();
  const example = join(runs.path, "own-prompts");
  cpSync(fileURLToPath(new URL("../../examples/own-prompts", import.meta.url)), example, { recursive: true });
  writeFileSync(join(runs.path, "parity.mjs"), "export default ({ responseIds }) => responseIds.at(-1) % 2;");
  settings = [
    `engine.kind=${fileURLToPath(new URL("./support/long-engine.mjs", import.meta.url))}`,
    `task.reward=${join(runs.path, "parity.mjs")}`,
    "job.steps=2",
    "weights.source=seed",
    `sampling.max_new_tokens=${tokens}`,
    "batch.groups_per_step=4",
    `batch.group_size=${groupSize}`,
    "batch.minibatches=1",
    "limits.chunk_groups=1",
    "limits.lease_groups=1",
    "limits.leases_per_rollout=1",
    "timing.save=100ms",
    "evaluation.every_steps=0",
    "evaluation.prompts=0",
  ];
});
afterAll(() => runs.close());

const start = (job: string, ...more: readonly string[]): Promise<JobRun> =>
  startJobRun({
    runs: runs.path,
    job,
    file: join(runs.path, "own-prompts", "job.toml"),
    args: [...settings, ...more].flatMap((set) => ["--set", set]),
  });

/** Kills the first sampler whose groups were saved three times, and gives the kinds and sizes of what the groups stream held. */
async function killInTheMiddle(run: JobRun): Promise<ReadonlyMap<string, readonly number[]>> {
  await run.waitForEvent("job.started");
  const transport = await connectAs(run, "controller");
  const sizes = new Map<string, number[]>();
  try {
    const saves = new Map<string, number>();
    const saved = new Promise<string>((resolve) => {
      const handle = ({ data }: { readonly data: Uint8Array }): void => {
        const { kind, from } = decodeMessage(data);
        sizes.set(kind, [...(sizes.get(kind) ?? []), data.length]);
        if (kind === "groups.begun") saves.set(from, (saves.get(from) ?? 0) + 1);
        if (saves.get(from) === 3) resolve(from);
      };
      void transport.tail({ stream: "groups", fromSeq: 1, handle });
    });
    const id = await saved;
    process.kill(run.pidOf(id), "SIGKILL");
    await run.waitForEvent("groups.resumed", (event) => event.tokens > groupSize * 1_000);
    await run.ended();
  } finally {
    await transport.close();
  }
  return sizes;
}

test("answers of 32,768 tokens are trained on as in a quiet run when their sampler is killed in the middle", async () => {
  const quiet = await (await start("quiet")).ended();
  expect(quiet).toMatchObject({ steps: 2, ledger: { trained: 2 * 4 * groupSize, aborted: 0, quarantined: 0 } });
  const run = await start("killed", "replicas.rollout=2");
  const sizes = await killInTheMiddle(run);
  expect(sizes.get("groups.joined")?.length).toBeGreaterThanOrEqual(8);
  expect(Math.max(...[...sizes.values()].flat())).toBeLessThanOrEqual(520 * 1024);
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(quiet.weights_hash);
});
