import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { describe, expect, it } from "vitest";
import { openSplit, type Split } from "../src/rows/open-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-rows-"));

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

async function allRows(split: Split): Promise<readonly unknown[]> {
  const rows = await Promise.all(Array.from({ length: split.count }, (_, i) => split.row(i)));
  await split.close();
  return rows;
}

const table = Array.from({ length: 1_000 }, (_, i) => ({
  prompt: `what is ${i}?`,
  answer: i,
  text: "é".repeat(i % 7),
}));
const linesOf = (rows: readonly object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

function parquetOf(rows: readonly (typeof table)[number][], rowGroupSize: number): Uint8Array {
  const columnData = [
    { name: "prompt", data: rows.map(({ prompt }) => prompt), type: "STRING" as const },
    { name: "answer", data: rows.map(({ answer }) => BigInt(answer)), type: "INT64" as const },
    { name: "text", data: rows.map(({ text }) => text), type: "STRING" as const },
  ];
  return new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize }));
}

describe("JSON lines", () => {
  it("are the same one behind the other, where one read brings many, and in any order", async () => {
    // 2.4 MB: longer than two reads, and some lines lie over the border between them.
    const rows = Array.from({ length: 300 }, (_, i) => ({ i, text: "é".repeat(4_000 + (i % 7)) }));
    const split = await openSplit(write("blocks/train.jsonl", linesOf(rows)), "train");
    const read = async (order: readonly number[]) => {
      const found: unknown[] = [];
      for (const index of order) found.push(await split.row(index));
      return found;
    };
    const order = rows.map(({ i }) => i);
    expect(await read(order)).toEqual(rows);
    const mixed = order.map((i) => (i * 7) % 300);
    expect(await read(mixed)).toEqual(mixed.map((i) => rows[i]));
    expect(await allRows(split)).toEqual(rows);
  });

  it("give each row by its number; blank lines and a last line without its end are none and one", async () => {
    const path = write("a.jsonl", `\n${linesOf(table).replaceAll("\n", "\r\n")} \t\n{"last":true}`);
    expect(await allRows(await openSplit(path, "train"))).toEqual([...table, { last: true }]);
  });

  it("are found across the pieces in which a large file is read", async () => {
    const large = Array.from({ length: 300 }, (_, i) => ({ i, text: "x".repeat(40_000 + i) }));
    const split = await openSplit(write("large.jsonl", linesOf(large)), "train");
    expect(split.count).toBe(300);
    expect(await split.row(299)).toEqual(large[299]);
    expect(await split.row(107)).toEqual(large[107]);
    await split.close();
  });

  it("are told by their place when they are no rows, and concern no other row", async () => {
    const split = await openSplit(write("bad.jsonl", '{"a":1}\n{"a":\n[1]\n{"a":2}\n'), "train");
    await expect(split.row(1)).rejects.toThrow(/^row 2 of .*bad\.jsonl: it is no JSON \(/);
    await expect(split.row(2)).rejects.toThrow("it is no JSON object of columns");
    expect(await split.row(3)).toEqual({ a: 2 });
    await split.close();
  });

  it("of more than 4 MiB are refused by their line", async () => {
    const path = write("long.jsonl", `{"a":1}\n{"a":"${"x".repeat(5 * 2 ** 20)}"}\n`);
    await expect(openSplit(path, "train")).rejects.toThrow("line 2 has 5242888 bytes, more than 4194304");
  });

  it("have a digest that one changed byte changes", async () => {
    const digests = await Promise.all(
      ["1", "2"].map(async (one) => {
        const split = await openSplit(write(`digest-${one}.jsonl`, `{"a":${one}}\n`), "train");
        await split.close();
        return split.digest;
      }),
    );
    expect(digests[0]).not.toBe(digests[1]);
  });
});

describe("Parquet", () => {
  it("gives the rows that JSON lines give, over row groups", async () => {
    const split = await openSplit(write("a.parquet", parquetOf(table, 130)), "train");
    expect(split.count).toBe(1_000);
    expect(await allRows(split)).toEqual(table);
  });

  it("that is cut off or no Parquet at all is refused by its path", async () => {
    const whole = parquetOf(table, 500);
    const cut = write("cut.parquet", whole.slice(0, whole.length / 2));
    await expect(openSplit(cut, "train")).rejects.toThrow(/cut\.parquet: it is no Parquet file \(/);
  });

  it("whose pages are spoiled fails where a row of them is read, and says which rows", async () => {
    const spoiled = parquetOf(table, 500);
    spoiled.fill(0xff, 8, 400);
    const split = await openSplit(write("spoiled.parquet", spoiled), "train");
    await expect(split.row(0)).rejects.toThrow(/spoiled\.parquet: rows 1 to 500 can not be read \(/);
    expect(await split.row(700)).toEqual(table[700]);
    await split.close();
  });
});

describe("a folder of a dataset", () => {
  it("gives the files of a split, one after the other", async () => {
    const halves = [table.slice(0, 400), table.slice(400)];
    halves.forEach((rows, i) => void write(`hub/data/train-0000${i}-of-00002.parquet`, parquetOf(rows, 100)));
    write("hub/data/test-00000-of-00001.parquet", parquetOf(table.slice(0, 7), 100));
    write("hub/README.md", "a dataset");
    const split = await openSplit(join(folder, "hub"), "train");
    expect(split.placeOf(401)).toEqual({ path: join(folder, "hub/data/train-00001-of-00002.parquet"), row: 2 });
    expect(await allRows(split)).toEqual(table);
    const test = await openSplit(join(folder, "hub"), "test");
    expect(test.count).toBe(7);
    await test.close();
  });

  it("without the split says what is there", async () => {
    await expect(openSplit(join(folder, "hub"), "validation")).rejects.toThrow(
      'no .jsonl or .parquet file of the split "validation" is there (files: data/test-00000-of-00001.parquet, data/train-00000-of-00002.parquet',
    );
    await expect(openSplit(join(folder, "nowhere"), "train")).rejects.toThrow(/nowhere: ENOENT/);
    await expect(openSplit(write("a.csv", "a,b\n"), "train")).rejects.toThrow(
      "prompts come from .jsonl and .parquet files",
    );
    await expect(openSplit(write("empty.jsonl", "\n\n"), "train")).rejects.toThrow("there is no row");
  });
});
