/** `muster export`: checkpoints for other programs, whole or not at all. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openCheckpointStore } from "@muster/checkpoint";
import { hfConfigOf, loadHfFolder, tensorsOf } from "@muster/engine/embedded";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createProgram } from "../src/program.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-export-"));
const root = join(folder, "checkpoints");
const warm = fileURLToPath(new URL("../../../jobs/warm-start/dates", import.meta.url));
let weights: Uint8Array;

beforeAll(async () => {
  const loaded = await loadHfFolder(warm);
  weights = loaded.weights;
  const store = await openCheckpointStore({ root, keep: 2, now: () => new Date(0) });
  await store.save(
    {
      ...{ job: "dates", lineage: 0, step: 3, version: 3, term: 1, engineBuild: "b", groupsWatermark: 0 },
      ledger: { admitted: 1, trained: 1, aborted: 0, quarantined: 0 },
      tensors: tensorsOf(loaded.model),
      modelConfig: hfConfigOf(loaded.model),
      sections: [{ name: "weights", digest: "d", bytes: weights }],
    },
    new AbortController().signal,
  );
});
afterAll(() => rmSync(folder, { recursive: true }));

let out = "";
let count = 0;
beforeEach(() => {
  out = join(folder, `out-${count++}`);
});

const run = async (...args: readonly string[]): Promise<void> => {
  await (await createProgram()).parseAsync(["node", "muster", "export", ...args]);
};
const newest = () => join(root, readdirSync(root).find((name) => name.startsWith("step-")) ?? "");

describe("muster export", () => {
  it("writes the newest checkpoint as a folder that loads with the same weights", async () => {
    await run(root, "--out", out);
    expect(readdirSync(out).sort()).toEqual(["config.json", "model.safetensors"]);
    expect(Buffer.from((await loadHfFolder(out)).weights).equals(Buffer.from(weights))).toBe(true);
  });

  it("writes several files of at most a size and their index, which a reader of Python's standard library puts together", async () => {
    await run(root, "--shard-size", "64KiB", "--out", out);
    const shards = readdirSync(out).filter((name) => name.endsWith(".safetensors"));
    expect(shards.length).toBeGreaterThan(2);
    expect(Buffer.from((await loadHfFolder(out)).weights).equals(Buffer.from(weights))).toBe(true);
    const reader = fileURLToPath(new URL("support/read-shards.py", import.meta.url));
    const told = JSON.parse(execFileSync("python3", [reader, out], { encoding: "utf8" }));
    const sha256 = createHash("sha256").update(weights).digest("hex");
    expect(told).toMatchObject({ sha256, files: shards.length, total_size: weights.length });
    // The library of the format itself reads them, too, where it is installed.
    expect([null, told.tensors]).toContain(told.library);
  });

  it("writes one checkpoint as GGUF, with the characters of its task or given ones", async () => {
    await run(newest(), "--format", "gguf", "--task", "dates", "--out", out);
    await run(newest(), "--format", "gguf", "--vocabulary", "$abc", "--out", `${out}-other`);
    const [file, other] = [readFileSync(out), readFileSync(`${out}-other`)];
    expect(file.toString("latin1", 0, 4)).toBe("GGUF");
    expect(file.subarray(-1000).equals(other.subarray(-1000))).toBe(true);
    expect(file.includes("<|unused")).toBe(false);
    expect(other.includes("<|unused 4|>")).toBe(true);
  });

  it.each([
    [
      "what is no checkpoint",
      () => ["/nowhere"],
      /checkpoint "\/nowhere" can not be used; there is no whole checkpoint/,
    ],
    ["no text for tokens", () => [root, "--format", "gguf"], /--task: \(none\) is needed for gguf, or --vocabulary/],
    [
      "two texts for tokens",
      () => [root, "--format", "gguf", "--task", "dates", "--vocabulary", "ab"],
      /leave one out/,
    ],
    ["a character that comes twice", () => [root, "--format", "gguf", "--vocabulary", "aba"], /each once/],
    ["shards of no size", () => [root, "--shard-size", "many"], /--shard-size: many /],
    ["an unknown task", () => [root, "--format", "gguf", "--task", "dats"], /dats.*dates/],
    [
      "too many characters",
      () => [root, "--format", "gguf", "--vocabulary", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"],
      /vocab_size = 43/,
    ],
  ])("refuses %s and writes nothing", async (_, args, text) => {
    await expect(run(...args(), "--out", out)).rejects.toThrow(text);
    expect(existsSync(out)).toBe(false);
  });

  it("leaves alone what is there, and a checkpoint that is damaged", async () => {
    mkdirSync(out);
    writeFileSync(join(out, "mine"), "1");
    await expect(run(root, "--out", out)).rejects.toThrow(/is there already; name another/);
    expect(readdirSync(out)).toEqual(["mine"]);
    const bad = join(folder, "bad");
    mkdirSync(bad);
    for (const name of readdirSync(newest())) writeFileSync(join(bad, name), readFileSync(join(newest(), name)));
    const file = join(bad, "model.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(file, bytes);
    await expect(run(bad, "--out", `${out}-bad`)).rejects.toThrow();
    expect(existsSync(`${out}-bad`)).toBe(false);
  });
});
