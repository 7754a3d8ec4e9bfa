import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clipText, listText } from "../src/index.ts";

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

setFlagsFromString("--expose-gc");

describe("a text that is clipped", () => {
  it("keeps nothing in memory of what it cut off", () => {
    const collect = runInNewContext("gc") as () => void;
    const long = (i: number) => Buffer.alloc(8 * 2 ** 20, `of sample ${i} `).toString("latin1");
    collect();
    const before = process.memoryUsage().heapUsed; // strings are there, and the buffers that they are made of are not
    const clipped = Array.from({ length: 16 }, (_, i) => clipText(long(i), 2_000));
    collect();
    const kept = process.memoryUsage().heapUsed - before;
    expect(clipped.every(({ length }) => length === 2_000)).toBe(true);
    expect(kept).toBeLessThan(32 * 2 ** 20);
  });

  it("stays as it is within its bounds", () => {
    expect(clipText("four", 4)).toBe("four");
    expect(clipText("数据", 4, 6)).toBe("数据");
  });

  it("says that it was cut, by characters and by bytes", () => {
    expect(clipText("seven..", 4)).toBe("sev…");
    expect(clipText("数据数据", 4, 9)).toBe("数据…");
    expect(clipText("abcdefgh", 100, 7)).toBe("abcd…");
  });

  it("never ends in half a character", () => {
    expect(clipText("ab😀cd", 4)).toBe("ab…");
    expect(clipText("ab😀cd", 5)).toBe("ab😀…");
    expect(clipText("a😀😀😀", 100, 8)).toBe("a😀…");
  });

  it("is within both bounds, whatever it says, and a beginning of what it was", () => {
    const bounds = fc.record({ chars: fc.integer({ min: 1, max: 40 }), bytes: fc.integer({ min: 3, max: 80 }) });
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), bounds, (text, { chars, bytes }) => {
        const clipped = clipText(text, chars, bytes);
        const isBeginning = clipped === text || text.startsWith(clipped.slice(0, -1));
        return clipped.length <= chars && bytesOf(clipped) <= bytes && isBeginning && !/\p{Surrogate}/u.test(clipped);
      }),
    );
  });
});

describe("a list of names", () => {
  it("names the first ones and counts the others", () => {
    expect(listText([])).toBe("");
    expect(listText(["a", "b"])).toBe("a, b");
    expect(listText(["a", "b", "c", "d"], 2)).toBe("a, b and 2 more");
  });
});
