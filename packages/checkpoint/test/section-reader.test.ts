/** One section as its files give it: where their bytes go, and what does not fit. */
import { encodeSafetensorsHeader } from "@muster/tensors";
import { expect, it } from "vitest";
import type { ReadableFile } from "../src/files.ts";
import { SectionReader } from "../src/section-reader.ts";

const tensor = (name: string, offsetBytes: number, sizeBytes: number) => ({
  ...{ name, dtype: "u8" as const, shape: [sizeBytes], offsetBytes, sizeBytes },
});

/** A file with these tensors, one byte each. */
function fileOf(...names: readonly string[]) {
  const header = encodeSafetensorsHeader(
    names.map((name, at) => tensor(name, at, 1)),
    names.length,
  );
  const bytes = Uint8Array.from([...header, ...names.map((_, at) => at + 1)]);
  const file: ReadableFile = {
    stat: { kind: "file", sizeBytes: bytes.length, links: 1, modifiedMs: 0, signature: "" },
    async read(into, from) {
      const part = bytes.subarray(from, from + into.length);
      into.set(part);
      return part.length;
    },
    async close() {},
  };
  return { bytes, headerBytes: header.length, file };
}

type Name = ConstructorParameters<typeof SectionReader>[0];

/** Reads files one after the other, each in one piece. */
async function read(name: Name, sizeBytes: number, files: readonly ReturnType<typeof fileOf>[]) {
  const reader = new SectionReader(name, sizeBytes);
  for (const { file, bytes } of files) {
    const target = await reader.next("a.safetensors", file, files.length === 1);
    target.take({ index: 0, from: 0, bytes: bytes.length }, bytes);
    target.done();
  }
  reader.end();
  return reader;
}

it("data that begins a piece is read where it belongs, and a piece with a part of the header is taken apart", async () => {
  const { file, bytes, headerBytes } = fileOf("a", "b", "c");
  const reader = new SectionReader("weights", 3);
  const target = await reader.next("model.safetensors", file, true);
  expect(target.memoryOf({ index: 0, from: headerBytes - 1, bytes: 4 })).toBeUndefined();
  const data = { index: 1, from: headerBytes, bytes: 3 };
  expect(target.memoryOf(data)?.buffer).toBe(reader.bytes.buffer);
  target.take(data, Uint8Array.of(9, 9, 9));
  expect([...reader.bytes]).toEqual([0, 0, 0]);
  target.take({ index: 0, from: 0, bytes: bytes.length }, bytes);
  target.done();
  reader.end();
  expect([...reader.bytes]).toEqual([1, 2, 3]);
});

it("files follow each other, and their tensors lie one after the other", async () => {
  const reader = await read("weights", 3, [fileOf("a", "b"), fileOf("c")]);
  expect([...reader.bytes]).toEqual([1, 2, 1]);
  expect(reader.tensors.map(({ name, offsetBytes }) => [name, offsetBytes])).toEqual([
    ["a", 0],
    ["b", 1],
    ["c", 2],
  ]);
});

it("a section that its files do not fill, or in which two tensors have one name, is refused", async () => {
  await expect(read("weights", 4, [fileOf("a", "b"), fileOf("c")])).rejects.toThrow(
    "section weights has 3 bytes, not 4",
  );
  await expect(read("weights", 2, [fileOf("a", "b"), fileOf("c")])).rejects.toThrow(/more than its 2 bytes/);
  await expect(read("weights", 2, [fileOf("a"), fileOf("a")])).rejects.toThrow(/a tensor of the same name/);
});

it("each file of an optimizer holds the one tensor of that name, and nothing else", async () => {
  expect([...(await read("optimizer", 2, [fileOf("optimizer"), fileOf("optimizer")])).bytes]).toEqual([1, 1]);
  for (const names of [["moments"], ["optimizer", "moments"]])
    await expect(read("optimizer", names.length, [fileOf(...names)])).rejects.toThrow(
      /must hold one tensor named optimizer/,
    );
});
