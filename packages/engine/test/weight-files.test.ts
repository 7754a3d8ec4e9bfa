/** Weights on their way to the files that servers load: in windows, so that no array has all of them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { randomOf } from "@muster/base";
import { encodeSafetensors, placeDensely } from "@muster/tensors";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SectionSource } from "../src/index.ts";
import { WeightFiles } from "../src/served/weight-files.ts";

const windowMax = 64 * 1024;

let directory: TempDirectory;
beforeEach(async () => {
  directory = await makeTempDirectory();
});
afterEach(async () => {
  await directory.remove();
});

const tensorsOf = (bytes: number) =>
  placeDensely([
    { name: "head", dtype: "u8", shape: [bytes - 1] },
    { name: "tail", dtype: "u8", shape: [1] },
  ]);

const opened = (bytes: number): Promise<WeightFiles> =>
  WeightFiles.open(directory.path, { tensors: tensorsOf(bytes), modelConfig: {} }, { format: "hf", windowMax });

function drawn(bytes: number, seed: number): Uint8Array {
  const random = randomOf(seed, 3);
  return Uint8Array.from({ length: bytes }, () => random.below(256));
}

/** A source that notes how it is asked, and fails from this byte on. */
function sourceOf(all: Uint8Array, failsFrom = Number.POSITIVE_INFINITY) {
  const asked: [from: number, bytes: number][] = [];
  const source: SectionSource = {
    bytes: all.length,
    copyTo: async (into, from = 0) => {
      asked.push([from, into.length]);
      if (from >= failsFrom) throw new Error("the holder is gone");
      into.set(all.subarray(from, from + into.length));
    },
  };
  return { source, asked };
}

const fileIn = (path: string): Buffer => readFileSync(join(path, "model.safetensors"));

describe.each([3 * windowMax - 1, 3 * windowMax, 3 * windowMax + 1])("weights of %i bytes", (bytes) => {
  it("are written as if they were one array, and each byte is asked for once", async () => {
    const files = await opened(bytes);
    const all = drawn(bytes, 1);
    const { source, asked } = sourceOf(all);
    expect(fileIn(await files.write("one", source)).equals(encodeSafetensors(tensorsOf(bytes), all))).toBe(true);
    expect(asked).toEqual(
      Array.from({ length: Math.ceil(bytes / windowMax) }, (_, i) => [
        i * windowMax,
        Math.min(windowMax, bytes - i * windowMax),
      ]),
    );
    await files.close();
  });
});

it("weights that fail in the middle leave the version before and nothing of themselves, and their own error is told", async () => {
  const bytes = 3 * windowMax + 1;
  const files = await opened(bytes);
  const first = drawn(bytes, 1);
  const path = await files.write("one", sourceOf(first).source);
  await expect(files.write("two", sourceOf(drawn(bytes, 2), 2 * windowMax).source)).rejects.toThrow(
    /^the holder is gone$/,
  );
  expect(fileIn(path).equals(encodeSafetensors(tensorsOf(bytes), first))).toBe(true);
  expect(readdirSync(join(path, ".."))).toEqual(["one"]);
  await files.close();
  expect(readdirSync(directory.path)).toEqual([]);
});

it("weights of more than 4 GiB are written", async (context) => {
  context.skip(process.env.MUSTER_TEST_LARGE === undefined, "writes 5 GiB; by hand with MUSTER_TEST_LARGE=1");
  const bytes = 2 ** 32 + 2 ** 20;
  const files = await WeightFiles.open(
    directory.path,
    { tensors: tensorsOf(bytes), modelConfig: {} },
    { format: "hf" },
  );
  const copyTo: SectionSource["copyTo"] = async (into, from = 0) => {
    into.fill(from / 2 ** 26);
  };
  const path = await files.write("large", { bytes, copyTo });
  const { open } = await import("node:fs/promises");
  const file = await open(join(path, "model.safetensors"));
  const { size } = await file.stat();
  const last = Buffer.alloc(1);
  await file.read(last, 0, 1, size - 1);
  await file.close();
  expect(size).toBeGreaterThan(bytes);
  expect(last[0], "the last window begins at 4 GiB").toBe(64);
  await files.close();
}, 600_000);
