/** Weights in several files: they come back the same through the index, whatever the size of a shard. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { encodeShards, openModelFolder, placeDensely } from "../src/index.ts";
import { decodeSafetensors } from "./support/decode-file.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-shards-"));
});
afterEach(() => rm(folder, { recursive: true }));

const tensors = placeDensely(
  [3, 5, 0, 8, 1].map((size, i) => ({ name: `t${i}`, dtype: "u8" as const, shape: [size] })),
);
const weights = Uint8Array.from({ length: 17 }, (_, i) => i * 7);
const namesOf = (files: object) => Object.keys(files).filter((name) => !name.endsWith(".json"));

it.each([
  [1, 4],
  [7, 4],
  [8, 3],
  [16, 2],
  [17, 1],
  [1e9, 1],
])("shards of %i bytes are %i files, and each tensor is read back from its own", async (shardBytes, count) => {
  const files = encodeShards([...tensors].reverse(), weights, shardBytes);
  const total = `${count}`.padStart(5, "0");
  expect(namesOf(files)).toEqual(
    Array.from({ length: count }, (_, i) => `model-${`${i + 1}`.padStart(5, "0")}-of-${total}.safetensors`),
  );
  for (const name of namesOf(files)) {
    const { tensors: own, data } = decodeSafetensors(Buffer.concat([...(files[name] ?? [])]));
    expect(data.length <= shardBytes || own.filter(({ sizeBytes }) => sizeBytes > 0).length === 1).toBe(true);
  }
  for (const [name, parts] of Object.entries(files)) await writeFile(join(folder, name), Buffer.concat([...parts]));
  const model = await openModelFolder(folder);
  for (const { name, offsetBytes, sizeBytes } of tensors) {
    const target = new Uint8Array(sizeBytes);
    await model.read(name, target);
    expect([...target]).toEqual([...weights.subarray(offsetBytes, offsetBytes + sizeBytes)]);
  }
  await model.close();
});

it("says what does not tile the weights, and when shards are too many to be named", () => {
  expect(() => encodeShards(tensors.slice(1), weights, 8)).toThrow(/safetensors file refused/);
  const many = placeDensely(Array.from({ length: 100_000 }, (_, i) => ({ name: `${i}`, dtype: "u8", shape: [1] })));
  expect(() => encodeShards(many, new Uint8Array(100_000), 1)).toThrow(/100000 shards .* over the limit of 99999/);
});
