/** `muster certify` on real processes: a short job of the embedded engine in peace and with kills. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, processesNaming, spawnMuster, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { jobFile } from "./support/small-job.ts";

let folder: TempDirectory;
beforeAll(async () => {
  folder = await makeTempDirectory();
});
afterAll(async () => {
  expect(processesNaming(folder.path)).toEqual([]);
  await folder.remove();
});

test("a job of the embedded engine has the same weights when a sampler and a trainer are killed, and the files say how that was proven", async () => {
  const out = join(folder.path, "proof");
  const small = ["batch.groups_per_step=4", "evaluation.prompts=16", "checkpoint.every_steps=3"];
  const sets = small.flatMap((one) => ["--set", one]);
  const run = await spawnMuster([
    "certify",
    jobFile,
    "--steps",
    "6",
    "--kills",
    "2",
    "--out",
    out,
    "--level",
    "L3",
    ...sets,
  ]);
  expect(await run.exited, run.lines.join("\n")).toMatchObject({ code: 0 });
  const verdict = JSON.parse(readFileSync(join(out, "verdict.json"), "utf8"));
  expect(verdict).toMatchObject({
    ok: true,
    level: "L3",
    kills: [{ victim: "rollout" }, { victim: "policy" }],
    contradictions: [],
  });
  expect(verdict.fingerprint.parts.trainer).toContain("embedded-wasm");
  expect(verdict.trainers.quiet).toEqual([
    { build: expect.stringContaining("embedded"), fingerprint: expect.stringMatching(/^[0-9a-f]{16}$/) },
  ]);
  for (const engines of [verdict.trainers.killed, verdict.samplers.quiet, verdict.samplers.killed])
    expect(engines).toEqual(verdict.trainers.quiet);
  expect(readFileSync(join(out, "verdict.txt"), "utf8")).toMatch(
    /proven: L3[\s\S]*L2 {2}proven: the same tokens[\s\S]*trained with: build embedded[^;]*, fingerprint [0-9a-f]{16}\nsampled with: build embedded[^;]*, fingerprint [0-9a-f]{16}\n/,
  );
});

test("a level that the job itself rules out is refused before anything runs", async () => {
  const run = await spawnMuster([
    "certify",
    jobFile,
    "--level",
    "L2",
    "--set",
    "job.mode=async",
    "--out",
    join(folder.path, "none"),
  ]);
  expect((await run.exited).code).toBe(2);
  expect(run.lines.join("\n")).toMatch(/--level L2 can not be proven of this job: job.mode = "async"/);
});
