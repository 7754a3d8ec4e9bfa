/** A large table is a tree behind the face of a record: whatever is done to it, it is what the record would be. */
import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { changedKeys } from "../src/table/diff.ts";
import { keptFold } from "../src/table/fold.ts";
import { firstOf, restOf } from "../src/table/list.ts";
import { entriesOf, sizeOf, type Table, treeOf, valuesOf, withEntry, withoutEntry } from "../src/table/table.ts";
import { emptyTrie, slotOf, slotsOf, type Trie, withSlot } from "../src/table/trie.ts";

type Act = { readonly key: number; readonly value: number; readonly isGone: boolean };

const acts = fc.array(fc.record({ key: fc.nat(300), value: fc.nat(), isGone: fc.boolean() }), {
  minLength: 1,
  maxLength: 400,
  size: "max",
});

const sum = keptFold<number, { readonly sum: number; readonly max: number }>({
  empty: { sum: 0, max: -1 },
  of: (value) => ({ sum: value % 1_000, max: value }),
  join: (a, b) => ({ sum: a.sum + b.sum, max: Math.max(a.max, b.max) }),
});

function after(table: Table<number>, { key, value, isGone }: Act, name: (key: number) => string): Table<number> {
  return isGone ? withoutEntry(table, name(key)) : withEntry(table, name(key), value);
}

function expectSame(table: Table<number>, record: Table<number>): void {
  expect(JSON.stringify(table)).toBe(JSON.stringify(record));
  expect(JSON.stringify({ ...table })).toBe(JSON.stringify(record));
  expect(Object.entries(table)).toEqual(Object.entries(record));
  expect(entriesOf(table)).toEqual(Object.entries(record));
  expect(valuesOf(table)).toEqual(Object.values(record));
  expect(sizeOf(table)).toBe(Object.keys(record).length);
  expect(sum.of(table)).toEqual(sum.of({ ...record }));
  const isLarge = (value: number): boolean => value > 1_000_000;
  expect(sum.select(table, ({ max }) => max > 1_000_000, isLarge)).toEqual(Object.values(record).filter(isLarge));
}

describe("what is left of a long list", () => {
  it("is what a copy would be, and is changed by nobody", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5), { maxLength: 40 }), fc.integer({ min: 0, max: 600 }), (counts, length) => {
        let copy: readonly number[] = Array.from({ length }, (_, i) => i * 3);
        let list = copy;
        for (const count of counts) {
          list = restOf(list, count);
          copy = copy.slice(count);
          expect(firstOf(list, 3)).toEqual(copy.slice(0, 3));
        }
        expect(list).toEqual(copy);
        expect(Array.isArray(list)).toBe(true);
        expect(JSON.stringify(list)).toBe(JSON.stringify(copy));
        expect([...list]).toEqual(copy);
        expect(list.filter((n) => n % 2)).toEqual(copy.filter((n) => n % 2));
        expect(list.slice(1, 4)).toEqual(copy.slice(1, 4));
        expect(list[list.length]).toBeUndefined();
        expect(Object.keys(list)).toEqual(Object.keys(copy));
      }),
      { numRuns: 60 },
    );
    const rest = restOf(
      Array.from({ length: 500 }, (_, i) => i),
      10,
    ) as number[];
    expect(() => rest.push(1)).toThrow(TypeError);
    expect(() => Object.defineProperty(rest, "0", { value: 1 })).toThrow(TypeError);
    expect(() => {
      delete (rest as unknown as Record<string, number>)[0];
    }).toThrow(TypeError);
    expect(() => {
      rest[0] = 1;
    }).toThrow(TypeError);
    expect(rest[0]).toBe(10);
    const copy = [...rest];
    for (const key of ["0", "489", "490", "-1", "01", "length", "map", Symbol.iterator, Symbol("other")]) {
      expect([key, key in rest]).toEqual([key, key in copy]);
      expect([key, Reflect.getOwnPropertyDescriptor(rest, key)]).toEqual([
        key,
        Reflect.getOwnPropertyDescriptor(copy, key),
      ]);
    }
    expect(Reflect.ownKeys(rest)).toEqual(Reflect.ownKeys(copy));
  });

  it("is a copy where that costs nothing, and a view where it is long", () => {
    const all = Array.from({ length: 300 }, (_, i) => i);
    const viewed: unknown[] = [restOf(all, 44), restOf(restOf(all, 20), 24)];
    expect(viewed).toEqual([all.slice(44), all.slice(44)]);
    expect(Object.getOwnPropertyDescriptor(restOf(all, 45), "0")).toMatchObject({ value: 45 });
    expect(Object.isExtensible(restOf(all, 45)) && (restOf(all, 45) as number[]).push(1)).toBe(256);
    expect(() => (restOf(all, 44) as number[]).push(1)).toThrow(TypeError);
  });
});

describe("what two tables differ in", () => {
  it("is every key whose value changed, and of two that are kin nothing else", () => {
    fc.assert(
      fc.property(acts, acts, (some, others) => {
        const start = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`r${i}`, i]));
        const name = (key: number): string => `r${key}`;
        const grown = some.reduce((table, act) => after(table, act, name), withEntry<number>(start, "r0", 1));
        const later = others.reduce((table, act) => after(table, act, name), grown);
        const pairs: readonly (readonly [Table<number>, Table<number>])[] = [
          [grown, later],
          [later, grown],
          [start, later],
          [{}, later],
          [later, {}],
        ];
        for (const [a, b] of pairs) {
          const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
          const expected = [...keys].filter((key) => a[key] !== b[key]).sort();
          const found = new Set(changedKeys<number>(a, b));
          expect([...found].filter((key) => a[key] !== b[key]).sort()).toEqual(expected);
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("what two tables differ in, key by key", () => {
  const start = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`r${i}`, i]));
  const kin = withEntry<number>(start, "r0", -1);
  const later = withEntry(withEntry(kin, "r7", -7), "r150", -150);
  const grown = Array.from({ length: 900 }, (_, i) => i).reduce((table, i) => withEntry(table, `s${i}`, i), kin);
  const turned = Object.fromEntries(Object.entries(start).reverse());
  const found = <V>(a: Table<V>, b: Table<V>): readonly string[] => [...new Set(changedKeys<V>(a, b))];

  it.each<[string, Table<number>, Table<number>, readonly string[]]>([
    ["one table and itself", kin, kin, []],
    ["one record and itself", start, start, []],
    ["a table and one that came out of it", kin, later, ["r7", "r150"]],
    ["a table and one that it came out of", later, kin, ["r7", "r150"]],
    ["a table and it without an entry", kin, withoutEntry(kin, "r9"), ["r9"]],
    ["a table and one of a level more", kin, grown, Array.from({ length: 900 }, (_, i) => `s${i}`)],
    ["two tables of three levels", grown, withEntry(grown, "s700", -1), ["s700"]],
    ["two tables in another order, which never were one", kin, withEntry<number>(turned, "r0", 0), ["r0"]],
    ["a table and a record", kin, start, ["r0"]],
  ])("is exactly what changed between %s", (_, a, b, expected) => {
    expect(found(a, b)).toEqual(expected);
  });

  it("goes through the keys of two that never were one, and through those of kin not at all", () => {
    const keys = vi.spyOn(Object, "keys");
    onTestFinished(() => void keys.mockRestore());
    const called = (a: Table<number>, b: Table<number>): boolean => {
      keys.mockClear();
      found(a, b);
      return keys.mock.calls.length > 0;
    };
    expect([called(kin, later), called(kin, start), called(kin, grown)]).toEqual([false, true, true]);
  });
});

describe("a table", () => {
  for (const [kind, name] of [
    ["names", (key: number) => `rollout-${key}`],
    ["numbers", (key: number) => `${key * 7}`],
    ["both", (key: number) => (key % 2 ? `${key}` : `r${key}`)],
  ] as const)
    it(`is what a record with ${kind} for keys would be, and so is every one before it`, () => {
      fc.assert(
        fc.property(acts, fc.boolean(), (all, isLarge) => {
          const start = Object.fromEntries(Array.from({ length: isLarge ? 200 : 0 }, (_, i) => [name(i), i]));
          const seen: [Table<number>, Table<number>][] = [[start, start]];
          for (const act of all) {
            // Every now and then another table comes out of an old one.
            const from = act.value % 11 === 0 ? act.value % seen.length : seen.length - 1;
            const [table, record] = seen[from] ?? [start, start];
            const { [name(act.key)]: _, ...without } = record;
            const next = act.isGone ? without : { ...record, [name(act.key)]: act.value };
            seen.push([after(table, act, name), next]);
          }
          for (const [table, record] of seen.filter((_, i) => i % 37 === 0 || i === seen.length - 1))
            expectSame(table, record);
        }),
        { numRuns: 40 },
      );
    });

  it("is a tree from 64 entries on, and takes no more room for those that have gone", () => {
    let table: Table<number> = {};
    for (let i = 0; i < 20_000; i++) {
      table = withEntry(table, `lease-${i}`, i);
      if (i >= 100) table = withoutEntry(table, `lease-${i - 100}`);
    }
    expect(sizeOf(table)).toBe(100);
    expect(treeOf(table)?.places?.given).toBeLessThan(2_000);
    expect(table["lease-19999"]).toBe(19_999);
    expect(table["lease-1"]).toBeUndefined();
    expect("lease-19990" in table).toBe(true);
    expect("lease-1" in table).toBe(false);
  });

  it("is changed by nobody", () => {
    const start = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`r${i}`, i]));
    const table = withEntry(start, "r1", 5) as Record<string, number>;
    expect(() => {
      table.r1 = 6;
    }).toThrow(TypeError);
    expect(() => Object.defineProperty(table, "r1", { value: 6 })).toThrow(TypeError);
    expect(() => {
      delete table.r1;
    }).toThrow(TypeError);
    expect(table.r1).toBe(5);
  });
});

describe("the tree of a table", () => {
  const filled = (slots: readonly number[]): Trie<string> =>
    slots.reduce<Trie<string>>((trie, slot) => withSlot(trie, slot, `${slot}`), emptyTrie);

  it("has nothing in a slot beyond its last level, and grows by one level for the first one there", () => {
    const full = filled(Array.from({ length: 32 }, (_, slot) => slot));
    expect([full.depth, slotOf(full, 31), slotOf(full, 32), slotOf(full, 1_024)]).toEqual([
      0,
      "31",
      undefined,
      undefined,
    ]);
    const grown = withSlot(full, 32, "32");
    expect([grown.depth, slotOf(grown, 0), slotOf(grown, 32)]).toEqual([1, "0", "32"]);
    expect([...slotsOf(grown)]).toEqual(Array.from({ length: 33 }, (_, slot) => `${slot}`));
  });

  it("keeps no branch in which nothing is left", () => {
    const slots = [3, 40, 41, 2_000];
    const one = slots.slice(1).reduce<Trie<string>>((trie, slot) => withSlot(trie, slot, undefined), filled(slots));
    expect([...slotsOf(one)]).toEqual(["3"]);
    expect(JSON.stringify(withSlot(one, 3, undefined).root)).toBe("[]");
  });
});

describe("a table of any size", () => {
  const named = (count: number): Table<number> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`r${i}`, i]));

  it("is a plain record of up to 63 entries, and a tree when an entry of 64 is changed", () => {
    expect(treeOf(withEntry(named(63), "r1", 5))).toBeUndefined();
    expect(treeOf(withEntry(named(64), "r1", 5))).toMatchObject({ size: 64, places: { given: 64 } });
    expect(treeOf(withoutEntry(named(64), "r1"))?.size).toBe(63);
  });

  it("begins anew when more than four times as many slots as it has entries, and a thousand, were given", () => {
    let table = named(100);
    let most = 0;
    for (let i = 0; i < 4_000; i++) {
      table = withoutEntry(withEntry(table, `lease-${i}`, i), `lease-${i - 100}`);
      most = Math.max(most, treeOf(table)?.places?.given ?? 0);
    }
    expect([sizeOf(table), most]).toEqual([200, 4 * 200 + 1_024 + 1]);
  });

  it("describes an entry as a record does", () => {
    const table = withEntry(named(100), "r1", 5);
    const describe = (of: Table<number>, key: string) => Reflect.getOwnPropertyDescriptor(of, key);
    for (const key of ["r1", "r100", "toString"])
      expect([key, describe(table, key)]).toEqual([key, describe({ ...named(100), r1: 5 }, key)]);
  });
});

describe("what is known of a table", () => {
  it("is found in one of three levels as in a record, and where there can be none nothing is looked at", () => {
    const values = Object.fromEntries(Array.from({ length: 1_200 }, (_, i) => [`r${i}`, i]));
    const table = withEntry<number>(values, "r0", 0);
    const looked: number[] = [];
    const isLast = (value: number): boolean => {
      looked.push(value);
      return value > 1_197;
    };
    expect(sum.select(table, ({ max }) => max > 1_197, isLast)).toEqual([1_198, 1_199]);
    expect(looked).toEqual(Array.from({ length: 1_200 - 1_184 }, (_, i) => 1_184 + i));
  });
});

describe("a list from which something is taken again and again", () => {
  it("is as quick to read after ten thousand times as after the first", () => {
    const all: readonly number[] = Array.from({ length: 10_300 }, (_, i) => i);
    let rest = all;
    for (let i = 0; i < 10_000; i++) rest = restOf(rest, 1);
    expect([rest[0], rest.length, ...firstOf(rest, 1)]).toEqual([10_000, 300, 10_000]);
  });
});
