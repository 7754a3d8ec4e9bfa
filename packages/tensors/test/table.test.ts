/** Tables of tensors: checked row by row, and known by a digest of all rows. */
import { describe, expect, it } from "vitest";
import { placeDensely, summaryOfTable, TableCheck, tableRowsMax } from "../src/index.ts";

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

describe("the summary of a table", () => {
  const tableOf = (count: number, last = "z") =>
    placeDensely([...Array.from({ length: count - 1 }, (_, i) => row(`t${i}`, 0)), row(last, 0)]);

  it("is as long for 200,000 rows as for one, and lets others run between pages", async () => {
    let turns = 0;
    const turn = async () => {
      turns += 1;
    };
    const large = await summaryOfTable(tableOf(200_000), turn);
    expect(large).toEqual({ rows: 200_000, bytes: 3_200_000, digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
    expect(turns).toBe(200);
    const small = await summaryOfTable(tableOf(1), turn);
    expect(JSON.stringify(large).length - JSON.stringify(small).length).toBeLessThan(20);
  });

  it("differs when any row does, and not by how its rows come in pages", async () => {
    const turn = async () => {};
    const digest = async (tensors: Parameters<typeof summaryOfTable>[0]) =>
      (await summaryOfTable(tensors, turn)).digest;
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
});
