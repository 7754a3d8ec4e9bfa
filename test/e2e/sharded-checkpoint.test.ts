/** One checkpoint written by three actors at once, as a sharded folder of Hugging Face. About 15 s: one of them is killed with its shard unfinished. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openModelFolder } from "@muster/tensors";
import { type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

const shards = ["replicas.checkpoint=3", "checkpoint.shards=3"].flatMap((set) => ["--set", set]);

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const namesIn = (run: JobRun): readonly string[] => readdirSync(join(run.directory, "checkpoints"));

/** Notes about shards that are durable in sets that nobody has sealed yet. */
const notesIn = (run: JobRun): readonly string[] =>
  namesIn(run)
    .filter((name) => name.startsWith(".set-"))
    .flatMap((name) => readdirSync(join(run.directory, "checkpoints", name)))
    .filter((file) => /^shard-\d{5}-of-00003\.json$/.test(file));

/** Reads the index as anybody would who knows nothing of Muster, and every tensor that it names. */
async function expectModel(path: string): Promise<void> {
  const files = readdirSync(path).sort();
  const parts = (kind: string) => [1, 2, 3].map((i) => `${kind}-0000${i}-of-00003.safetensors`);
  const beside = ["config.json", "manifest.json", "model.safetensors.index.json"];
  expect(files).toEqual([...beside, ...parts("model"), ...parts("optimizer")].sort());
  const { metadata, weight_map: map } = JSON.parse(readFileSync(join(path, "model.safetensors.index.json"), "utf8"));
  expect(new Set(Object.values(map))).toEqual(new Set(parts("model")));
  const model = await openModelFolder(path);
  expect([...model.tensors.keys()].sort()).toEqual(Object.keys(map).sort());
  let total = 0;
  for (const [name, { sizeBytes }] of model.tensors) {
    await model.read(name, new Uint8Array(sizeBytes));
    total += sizeBytes;
  }
  expect(metadata.total_size).toBe(total);
  await model.close();
}

const readWithPython = `
import json, struct, sys
folder = sys.argv[1]
index = json.load(open(folder + "/model.safetensors.index.json"))
total = 0
for name, file in index["weight_map"].items():
    with open(folder + "/" + file, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        begin, end = header[name]["data_offsets"]
        total += end - begin
assert total == index["metadata"]["total_size"], total
print(len(index["weight_map"]))
`;

test("three actors write one checkpoint; one is killed with its shard unfinished, another writes it, the checkpoint counts, and the run that goes on from it has the weights of a quiet one", async () => {
  const run = await runs.start("shards", "--steps", "40", ...shards);
  const { step: first } = await run.waitForEvent("checkpoint.kept");
  const stopped = run.pidOf("checkpoint-1");
  process.kill(stopped, "SIGSTOP");
  const left = () => [...namesIn(run), ...notesIn(run)];
  await waitFor(() => notesIn(run).length === 2, { what: "two of three shards", timeoutMs: 20_000, detail: left });
  process.kill(stopped, "SIGKILL");
  const { path, step } = await run.waitForEvent("checkpoint.kept", (event) => event.step > first);
  process.kill(-run.process.pid, "SIGINT");
  await run.ended(130);
  expect(step).toBeLessThan(40);
  await expectModel(path);
  expect(namesIn(run).filter((name) => /^\.(?:set|seal)-/.test(name))).toEqual([]);

  const again = await runs.start("shards", "--steps", "40", ...shards);
  const summary = await again.ended();
  expect(summary.steps).toBe(40);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(again));
  expectBalanced(summary);
  expect(again.events("checkpoint.kept").at(-1)).toMatchObject({ step: 40 });
}, 120_000);

test("a program that knows only the layout of Hugging Face reads the index and every header", ({ skip }) => {
  if (spawnSync("python3", ["-c", ""]).error) return skip("python3 is not here");
  const root = join(runs.path, "shards", "checkpoints");
  const newest = readdirSync(root).sort().at(-1) ?? "";
  const python = spawnSync("python3", ["-c", readWithPython, join(root, newest)], { encoding: "utf8" });
  expect(python).toMatchObject({ status: 0, stderr: "" });
});
