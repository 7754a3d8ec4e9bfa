/** Tables of tensors: checked row by row, and known by a digest of all rows. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { placeDensely, readTable, TableCheck, tableRowsMax, writeTable } from "../src/index.ts";

const row = (name: string, offsetBytes: number, shape: readonly number[] = [4]) => ({
  ...{ name, dtype: "f32" as const, shape, offsetBytes },
});

function faultOf(...rows: readonly ReturnType<typeof row>[]): string | null {
  const check = new TableCheck();
  for (const each of rows) {
    const fault = check.add(each);
    if (fault) return fault;
  }
  const table = check.finish();
  return typeof table === "string" ? table : null;
}

describe("a table", () => {
  it("is whole when its tensors lie one behind the other", () => {
    const check = new TableCheck();
    expect([check.add(row("a", 0)), check.add(row("b", 16, [2, 3])), check.add(row("c", 40))]).toEqual([
      null,
      null,
      null,
    ]);
    expect(check.finish()).toEqual(placeDensely([row("a", 0), row("b", 16, [2, 3]), row("c", 40)]));
    expect([check.rows, check.bytes]).toEqual([3, 56]);
  });

  it.each([
    ["overlaps", [row("a", 0), row("b", 8)], /"b" starts at byte 8, and the one before it ends at 16/],
    ["has a gap", [row("a", 0), row("b", 20)], /"b" starts at byte 20/],
    ["begins late", [row("a", 4)], /"a" starts at byte 4, and the one before it ends at 0/],
    ["names a tensor twice", [row("a", 0), row("a", 16)], /"a" stands there twice/],
    ["overflows in one tensor", [row("a", 0, [2 ** 40, 2 ** 40])], /too many bytes to count/],
    [
      "overflows in all",
      [row("a", 0, [2 ** 50]), row("b", 2 ** 52, [2 ** 50]), row("c", 2 ** 53, [1])],
      /too many to count|too many bytes/,
    ],
    ["has no bytes", [row("a", 0, [0])], /it has no bytes/],
  ])("that %s is refused", (_, rows, expected) => {
    expect(faultOf(...rows)).toMatch(expected);
  });

  it(`has ${tableRowsMax} rows at most`, () => {
    const check = new TableCheck();
    for (let i = 0; i < tableRowsMax; i++) if (check.add(row(`t${i}`, 16 * i)) !== null) throw new Error(`row ${i}`);
    expect(check.add(row("more", 16 * tableRowsMax))).toBe("it has more than 200000 rows");
  });
});

describe("the text of a table", () => {
  const tableOf = (count: number, last = "z") =>
    placeDensely([...Array.from({ length: count - 1 }, (_, i) => row(`t${i}`, 0)), row(last, 0)]);

  it("has a summary as long for 200,000 rows as for one, is read back, and lets others run between pages", async () => {
    let turns = 0;
    const turn = async () => {
      turns += 1;
    };
    const { text, ...large } = await writeTable(tableOf(200_000), turn);
    expect(large).toEqual({ rows: 200_000, bytes: 3_200_000, digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
    expect(turns).toBe(200);
    const read = await readTable(text, large, turn);
    expect(turns).toBe(400);
    expect(read).toHaveLength(200_000);
    expect(read.at(-1)).toMatchObject({ ...row("z", 3_199_984), sizeBytes: 16 });
    const { text: _, ...small } = await writeTable(tableOf(1), turn);
    expect(JSON.stringify(large).length - JSON.stringify(small).length).toBeLessThan(20);
  });

  it("differs when any row does, and not by how its rows come in pages", async () => {
    const turn = async () => {};
    const digest = async (tensors: Parameters<typeof writeTable>[0]) => (await writeTable(tensors, turn)).digest;
    const table = tableOf(2_001);
    expect(await digest(table)).toBe(await digest([...table]));
    expect(await digest(tableOf(2_001, "y"))).not.toBe(await digest(table));
    expect(await digest(table.map((each, i) => (i === 7 ? { ...each, shape: [2, 2] } : each)))).not.toBe(
      await digest(table),
    );
    expect(await digest(table.map((each, i) => (i === 7 ? { ...each, dtype: "i32" as const } : each)))).not.toBe(
      await digest(table),
    );
  });

  const turn = async () => {};
  const namedAs = async (text: string | Uint8Array, named: object = {}) => {
    const bytes = new Uint8Array(Buffer.from(text as string));
    const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    return await readTable(bytes, { rows: 2, bytes: 32, digest, ...named }, turn);
  };
  const a = '["a","f32",[4],0]\n';
  const b = '["b","f32",[4],16]\n';

  it("is read when all of it is as it was named", async () => {
    expect(await namedAs(a + b)).toEqual(placeDensely([row("a", 0), row("b", 16)]));
    expect((await writeTable(placeDensely([row("a", 0), row("b", 16)]), turn)).text).toEqual(
      new Uint8Array(Buffer.from(a + b)),
    );
  });

  it.each<[string, string | Uint8Array, object, RegExp]>([
    [
      "has another digest",
      a + b,
      { digest: "sha256:00" },
      /^its digest is sha256:[0-9a-f]{64}, and sha256:00 was named$/,
    ],
    ["has fewer rows", a, { bytes: 16 }, /^it has 1 rows, and 2 were named$/],
    ["covers other bytes", a + b, { bytes: 33 }, /^its tensors cover 32 bytes, and 33 were named$/],
    ["overlaps", `${a}["b","f32",[4],8]\n`, {}, /^tensor "b" starts at byte 8, and the one before it ends at 16$/],
    [
      "overflows",
      `["a","f32",[${2 ** 50},${2 ** 50}],0]\n`,
      {},
      /^tensor "a" of shape .* has too many bytes to count$/,
    ],
    [
      "has a dtype that is not known",
      `${a}["b","f31",[4],16]\n`,
      {},
      /^row 2 \(tensor "b"\) has the dtype "f31", which is not known$/,
    ],
    ["has a dtype that is a name of objects", '["a","toString",[4],0]\n', {}, /^row 1 .* has the dtype "toString"/],
    ["has a shape that is none", '["a","f32",[-1],0]\n', {}, /^row 1 .* has a shape that is no list of sizes$/],
    ["has an offset that is none", '["a","f32",[4],0.5]\n', {}, /^row 1 .* has an offset that is no number of bytes$/],
    ["has a name that is none", '[7,"f32",[4],0]\n', {}, /^row 1 has a name that is no text$/],
    ["has a row that is no row", `${a}{}\n`, {}, /^row 2 is not \[name, dtype, shape, offset in bytes\]$/],
    ["has a row that is no JSON", `${a}[\n`, {}, /^row 2 is not/],
    [
      "is written in another way",
      `${a}["b", "f32",[4],16]\n`,
      {},
      /^row 2 \(tensor "b"\) is not written as tables are$/,
    ],
    ["is no UTF-8", Uint8Array.from([0xff, 10]), {}, /^row 1 is not/],
    ["is cut off", `${a}["b","f32"`, {}, /^row 2 has no end$/],
    ["is empty", "", {}, /^it has no bytes$/],
  ])("that %s is refused", async (_, text, named, expected) => {
    expect(await namedAs(text, named)).toMatch(expected);
  });
});
