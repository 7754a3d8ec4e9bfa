import { describe, expect, it } from "vitest";
import { paintedNews } from "../../src/terminal/paint.ts";
import { terminalOf } from "../../src/terminal/terminal.ts";
import { wrapped } from "../../src/terminal/wrap.ts";

const stream = (isTTY: boolean, size = {}) => ({ isTTY, ...size, write: () => true, on: () => {}, off: () => {} });

describe("what a stream can show", () => {
  it.each([
    [true, {}, true, true],
    [false, {}, false, false],
    [true, { NO_COLOR: "1" }, true, false],
    [true, { NO_COLOR: "" }, true, true],
    [false, { FORCE_COLOR: "1" }, false, true],
    [false, { FORCE_COLOR: "" }, false, true],
    [true, { FORCE_COLOR: "0" }, true, false],
    [true, { FORCE_COLOR: "1", NO_COLOR: "1" }, true, true],
    [true, { TERM: "dumb" }, false, false],
  ])("a terminal: %s, %o: redrawn %s, colours %s", (isTTY, env, isLive, hasColour) => {
    expect(terminalOf(stream(isTTY), env)).toMatchObject({ isLive, hasColour });
  });

  it("takes a terminal that does not know its size for one of 80 × 24", () => {
    const terminal = terminalOf(stream(true, { columns: 0, rows: 0 }), {});
    expect([terminal.columns(), terminal.rows()]).toEqual([80, 24]);
  });
});

describe("a line that is too long", () => {
  it("goes on below where its text begins, behind a label, a time or a sign", () => {
    expect(wrapped("  ledger      1,000 admitted = 900 trained + 100 pending", 40)).toEqual([
      "  ledger      1,000 admitted = 900",
      "              trained + 100 pending",
    ]);
    expect(wrapped("12:00:00  ! one two three", 24)).toEqual(["12:00:00  ! one two", "            three"]);
  });

  it("is left alone where it fits, and a long word stays whole", () => {
    expect(wrapped("short", 5)).toEqual(["short"]);
    expect(wrapped("a /a/very/long/path b", 10)).toEqual(["a", "/a/very/long/path", "b"]);
  });
});

describe("colour", () => {
  it("is that of the sign; without a sign, or without colours, there is none", () => {
    expect(paintedNews("+ a joined", true)).toBe("\u001b[32m+ a joined\u001b[0m");
    expect(paintedNews("  a", true)).toBe("  a");
    expect(paintedNews("! a died", false)).toBe("! a died");
  });
});
