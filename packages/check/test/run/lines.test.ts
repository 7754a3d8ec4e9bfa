import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type FileLine, linesOf } from "../../src/run/lines.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "muster-lines-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The lines of a file with this content. */
async function read(content: string | Uint8Array, onBytes?: (bytes: number) => void): Promise<readonly FileLine[]> {
  const path = join(folder, "lines");
  writeFileSync(path, content);
  const lines: FileLine[] = [];
  for await (const line of linesOf(path, { onBytes })) lines.push(line);
  return lines;
}

const wholes = (...texts: readonly string[]): readonly FileLine[] =>
  texts.map((text, i) => ({ number: i + 1, text, isEnded: true }));

it("the lines of a file come in order, and nothing comes of an empty file", async () => {
  expect(await read("a\nbc\n")).toEqual(wholes("a", "bc"));
  expect(await read("")).toEqual([]);
});

it("empty lines are passed over, and counted", async () => {
  expect(await read("a\n\nb\n")).toEqual([
    { number: 1, text: "a", isEnded: true },
    { number: 3, text: "b", isEnded: true },
  ]);
});

it("a last line that nothing ends says so", async () => {
  expect(await read("a\nb")).toEqual([...wholes("a"), { number: 2, text: "b", isEnded: false }]);
});

it("a line is one line wherever the file is cut while it is read, and every byte is counted once", async () => {
  const long = "ü".repeat(700_000);
  let bytes = 0;
  expect(
    await read(`${long}\n${long}\n`, (more) => {
      bytes += more;
    }),
  ).toEqual(wholes(long, long));
  expect(bytes).toBe(2 * (1_400_000 + 1));
});

it("a line of 32 MiB is read, a longer one is none, and the next is read again", async () => {
  const longest = new Uint8Array(32 * 1024 ** 2 + 1).fill(120);
  longest[longest.length - 1] = 10;
  const [line] = await read(longest);
  expect(line?.text?.length).toBe(32 * 1024 ** 2);
  const longer = new Uint8Array(34 * 1024 ** 2).fill(120);
  longer.set(new TextEncoder().encode("\nnext\n"), longer.length - 6);
  expect(await read(longer)).toEqual([
    { number: 1, text: null, isEnded: true },
    { number: 2, text: "next", isEnded: true },
  ]);
});
