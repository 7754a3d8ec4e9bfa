import { mkdtemp, open, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { encodeSafetensors, encodeSafetensorsHeader, openModelFolder, placeDensely } from "../src/index.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-model-"));
});
afterEach(() => rm(folder, { recursive: true }));

const index = (map: unknown): Promise<void> =>
  writeFile(join(folder, "model.safetensors.index.json"), typeof map === "string" ? map : JSON.stringify(map));

/** Writes a file of u8 tensors; the bytes of the n-th are n, n + 1, … */
async function write(fileName: string, ...names: string[]): Promise<void> {
  const tensors = placeDensely(names.map((name, n) => ({ name, dtype: "u8", shape: [n + 2] })));
  const data = names.flatMap((_, n) => Array.from({ length: n + 2 }, (_, i) => n + i));
  await writeFile(join(folder, fileName), encodeSafetensors(tensors, Uint8Array.from(data)));
}

const refusal = (reason: string | RegExp): object =>
  expect.objectContaining({ code: "MUSTER_ERR_MODEL_FOLDER_INVALID", message: expect.stringMatching(reason) });

describe("a model folder", () => {
  it("of one file is read by ranges of its tensors", async () => {
    await write("model.safetensors", "a", "b", "c");
    const model = await openModelFolder(folder);
    expect([...model.tensors.keys()]).toEqual(["a", "b", "c"]);
    const target = new Uint8Array(2);
    await model.read("c", target, 1);
    expect([...target]).toEqual([3, 4]);
    await expect(model.read("c", target, 3)).rejects.toEqual(refusal(/bytes \[3, 5\) of tensor "c".*has 4/));
    await expect(model.read("d", target)).rejects.toEqual(refusal(/tensor "d"/));
    await model.close();
  });

  it("of several files gives each tensor from the file that the index names", async () => {
    await write("model-00001-of-00002.safetensors", "a", "b");
    await write("model-00002-of-00002.safetensors", "c");
    const files = { a: 1, b: 1, c: 2 };
    const map = Object.entries(files).map(([name, n]) => [name, `model-0000${n}-of-00002.safetensors`]);
    await index({ metadata: { total_size: 7 }, weight_map: Object.fromEntries(map) });
    const model = await openModelFolder(folder);
    const target = new Uint8Array(3);
    await model.read("b", target);
    expect([...target]).toEqual([1, 2, 3]);
    await model.read("c", target.subarray(0, 2));
    expect([...target]).toEqual([0, 1, 3]);
    await model.close();
  });

  it("with a file beyond four gigabytes is read at its far end, without memory of its size", async () => {
    const size = 6 * 2 ** 30;
    const tensors = placeDensely([
      { name: "large", dtype: "bf16", shape: [size / 2] },
      { name: "last", dtype: "f32", shape: [1] },
    ]);
    const header = encodeSafetensorsHeader(tensors, size + 4);
    const path = join(folder, "model.safetensors");
    await writeFile(path, header);
    await truncate(path, header.length + size + 4); // sparse
    const file = await open(path, "r+");
    await file.write(Uint8Array.of(1, 2, 3, 4), 0, 4, header.length + size);
    await file.close();
    const before = process.memoryUsage().rss;
    const model = await openModelFolder(folder);
    const target = new Uint8Array(4);
    await model.read("last", target);
    expect([...target]).toEqual([1, 2, 3, 4]);
    await model.read("large", target, size - 4);
    expect([...target]).toEqual([0, 0, 0, 0]);
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 28);
    await model.close();
  });

  it("is refused when a file is missing, cut off or malformed, by its name", async () => {
    await expect(openModelFolder(folder)).rejects.toEqual(refusal(/ENOENT.*model.safetensors/));
    await writeFile(join(folder, "model.safetensors"), new Uint8Array(7));
    await expect(openModelFolder(folder)).rejects.toEqual(refusal(/model.safetensors: .*7 bytes is too short/));
    await write("model.safetensors", "a");
    await truncate(join(folder, "model.safetensors"), 70);
    await expect(openModelFolder(folder)).rejects.toEqual(refusal(/model.safetensors: .*ends after the file/));
  });

  it("of pickles is never read: it is named with the way out", async () => {
    await writeFile(join(folder, "pytorch_model-00001-of-00002.bin"), "");
    await writeFile(join(folder, "pytorch_model-00002-of-00002.bin"), "");
    const refused = refusal(
      /pytorch_model-00001-of-00002.bin and 1 more are written as a Python pickle.*safe_serialization=True/,
    );
    await expect(openModelFolder(folder)).rejects.toEqual(refused);
    await writeFile(join(folder, "model.pt"), "");
    const file = openModelFolder(join(folder, "model.pt"));
    await expect(file).rejects.toEqual(refusal(/model.pt is written as a Python pickle/));
    await write("model.safetensors", "a");
    await (await openModelFolder(folder)).close();
    const one = openModelFolder(join(folder, "model.safetensors"));
    await expect(one).rejects.toEqual(refusal(/it is a file; name the folder/));
  });

  it("says so when a file becomes shorter under it", async () => {
    await write("model.safetensors", "a");
    const model = await openModelFolder(folder);
    await truncate(join(folder, "model.safetensors"), 16);
    await expect(model.read("a", new Uint8Array(2))).rejects.toEqual(refusal(/model.safetensors became shorter/));
    await model.close();
  });

  const one = "one.safetensors";
  it.each<[string, unknown, RegExp]>([
    ["is not JSON", "{", /index.json: .*JSON/],
    ["has no weight_map", {}, /weight_map is not an object/],
    ["has a weight_map that is a list", { weight_map: [] }, /weight_map is not an object/],
    ["names no file", { weight_map: {} }, /names 0 files/],
    ["names a tensor twice", `{"weight_map":{"a":"${one}","\\u0061":"${one}"}}`, /a key comes twice/],
    ["leads out of the folder", { weight_map: { a: "../one.safetensors" } }, /no name of a safetensors file/],
    ["names something else than text", { weight_map: { a: 1 } }, /is in 1, which is no name/],
    [
      "names a tensor that its file lacks",
      { weight_map: { a: one, b: one, c: one } },
      /one.safetensors lacks tensor "c"/,
    ],
    ["leaves out a tensor", { weight_map: { a: one } }, /one.safetensors holds tensor "b"/],
    [
      "names a file that is not there",
      { weight_map: { a: "two.safetensors" } },
      /names two.safetensors, which is not there/,
    ],
  ])("is refused when its index %s", async (_, map, reason) => {
    await write(one, "a", "b");
    await index(map);
    await expect(openModelFolder(folder)).rejects.toEqual(refusal(reason));
  });

  it("is refused when a file holds a tensor that the index places in another", async () => {
    await write(one, "a", "b");
    await write("two.safetensors", "b");
    await index({ weight_map: { a: one, b: "two.safetensors" } });
    await expect(openModelFolder(folder)).rejects.toEqual(refusal(/one.safetensors holds tensor "b"/));
  });
});
