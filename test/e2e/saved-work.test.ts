/** What a sampler has drawn when `kill -9` ends it is not lost: it was saved, and another one goes on with it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeMessage } from "@muster/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectAs } from "./support/broker.ts";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** Takes two turns. It returns the first, so that the job ends with the weights of one whose engine draws by itself. */
const twoTurns = `export default async ({ engine, prompt }) => {
  const first = await engine.generate({ promptIds: prompt.ids });
  const second = await engine.generate({ promptIds: prompt.ids });
  if (second.finish === "abort") throw new Error("half a turn is no turn");
  return first;
};`;

test.each([
  ["responses", () => ["batch.group_size=128"]],
  [
    "turns of a module",
    () => {
      const path = join(runs.path, "two-turns.mjs");
      writeFileSync(path, twoTurns);
      return [`rollout.generate=${path}`, "batch.group_size=48"];
    },
  ],
])("a sampler that dies in the middle of its %s costs at most what it drew since it saved them", async (what, more) => {
  // One sampler draws half of the step in one go: long enough to be saved several times.
  const large = ["batch.groups_per_step=32", "limits.chunk_groups=16", "timing.save=20ms", ...more()];
  const args = ["--steps", "1", "--rollout", "1", ...large.flatMap((set) => ["--set", set])];
  const run = await runs.start(`saved-${what.length}`, ...args);
  await run.waitForEvent("job.started");
  const transport = await connectAs(run, "controller");
  try {
    // Since it last finished something.
    const saves = new Map<string, number>();
    const saved = new Promise<string>((resolve) => {
      const handle = ({ data }: { readonly data: Uint8Array }): void => {
        const { kind, from } = decodeMessage(data);
        if (kind === "groups.batch") saves.delete(from);
        if (kind !== "groups.begun") return;
        saves.set(from, (saves.get(from) ?? 0) + 1);
        // By the third one the controller knows of the first.
        if (saves.get(from) === 3) resolve(from);
      };
      void transport.tail({ stream: "groups", fromSeq: 1, handle });
    });
    const id = await saved;
    process.kill(run.pidOf(id), "SIGKILL");
    const { items } = await run.waitForEvent("groups.released", ({ holder }) => holder === id);
    const resumed = await run.waitForEvent("groups.resumed", ({ tokens }) => tokens > 0);
    expect(items).toEqual(expect.arrayContaining(resumed.items));
  } finally {
    await transport.close();
  }
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
});
