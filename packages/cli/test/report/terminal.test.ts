import { describe, expect, it } from "vitest";
import { cleanBlock, cleanLine, ledgerEquation, summaryText, terminalCurve } from "../../src/report/index.ts";
import { scaleOf } from "../../src/report/scale.ts";
import { compact, duration, figure, percent } from "../../src/report/text.ts";
import { runRecord, steps } from "./record.ts";

describe("terminalCurve", () => {
  it("draws a reward curve with axes and numbers", () => {
    const points = steps().map((step) => ({ x: step.step, y: step.reward ?? 0 }));
    expect(terminalCurve(points, { width: 64, height: 8, label: "reward" })).toMatchInlineSnapshot(`
      "reward  0.462 → 0.937
      1.0 ┤                                               ⢠⡀   ⡀⣀⡠⡀⣀ ⣀
          │                          ⢠⣀⢀⣀⡰⣤⠤⡠⡠⠤⠢⠒⠜⠢⠓⠒⠒⠔⠒⠜⠊⠁⠉⠉⠉⠊⠘⠁ ⠑⠁⠉
      0.8 ┤                   ⡔⣤⣀⠤⠤⠜⠖⠊⠋⠁  ⠁
          │            ⢀⡀⢀⡠⠊⠱⠓⠁⠁
          │         ⣄⡤⠢⠃⠈⠁
      0.6 ┤     ⡠⡠⠒⠜⠈
          │  ⢠⠔⠤⠃
      0.4 ┤ ⠒⠁
          └───────────────────────────────────────────────────────────
            1                                                      250"
    `);
  });

  it("draws a straight line as one", () => {
    const points = Array.from({ length: 101 }, (_, x) => ({ x, y: x / 100 }));
    expect(terminalCurve(points, { width: 40, height: 4, label: "line" })).toMatchInlineSnapshot(`
      "line  0.045 → 0.955
      1.0 ┤                           ⣀⣀⠤⠤⠔⠒⠊⠉
          │                  ⣀⣀⡠⠤⠔⠒⠒⠉⠉
      0.5 ┤         ⣀⣀⡠⠤⠔⠒⠊⠉⠉
      0.0 ┤ ⣀⡠⠤⠔⠒⠒⠉⠉
          └───────────────────────────────────
            0               50             100"
    `);
  });

  it("joins sparse points and stays inside its width and height", () => {
    for (const width of [24, 40, 79, 200]) {
      for (const height of [3, 7, 20]) {
        const text = terminalCurve(
          [
            { x: 0, y: -3 },
            { x: 9, y: 1_234_567 },
          ],
          { width, height, label: "l".repeat(500) },
        );
        const lines = text.split("\n");
        expect(lines).toHaveLength(height + 3);
        for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
      }
    }
  });

  it("has no hole in any column of a steep curve", () => {
    const points = Array.from({ length: 60 }, (_, x) => ({ x, y: x % 2 }));
    const rows = terminalCurve(points, { width: 64, height: 6, label: "saw" }).split("\n").slice(1, 7);
    const columns = Array.from({ length: 55 }, (_, index) => rows.some((row) => (row[index + 6] ?? " ") !== " "));
    expect(columns.every(Boolean)).toBe(true);
  });

  it("leaves out points that are no numbers, and says when there are none", () => {
    expect(terminalCurve([], { width: 60, height: 5, label: "reward" })).toBe("reward: no points yet");
    const broken = [
      { x: 1, y: Number.NaN },
      { x: Number.POSITIVE_INFINITY, y: 1 },
    ];
    expect(terminalCurve(broken, { width: 60, height: 5, label: "reward" })).toBe("reward: no points yet");
    expect(terminalCurve([...broken, { x: 1, y: 0 }], { width: 60, height: 5, label: "flat" })).toContain(
      "flat  0.000 → 0.000",
    );
  });

  it("cleans its label", () => {
    expect(terminalCurve([], { width: 60, height: 5, label: "\u001b[2Jre\nward" })).toBe("re ward: no points yet");
  });
});

describe("summaryText", () => {
  it("tells results, the ledger as an equation, and incidents with their times", () => {
    expect(summaryText(runRecord().summary)).toMatchInlineSnapshot(`
      "  job         dates, seed 7
        steps       250 in 48 s, 61.4k tokens/s
        reward      0.431 → 0.938
        held-out    54.1 % → 95.1 % exact
        best        step 200, 95.3 % exact: .muster/checkpoints/dates/00000200-v200
        weights     version 250, xxh3b:5f0c7a1e93d24b68
        ledger      256,000 admitted = 255,981 trained + 11 aborted + 8 quarantined + 0 pending
                    0 lost, 0 trained twice
        incidents   2 × member.died, 1 × term.changed
        productive  96.2 % of the time, 12.4k tokens made for nothing
                           9.2 s  member.died      rollout-2      seen after 210 ms, mended after 640 ms
                            18 s  member.died      policy-1       seen after 34 ms, mended after 410 ms
                            26 s  term.changed     controller     seen after 1.5 s, mended after 2.0 s"
    `);
  });

  it("keeps hostile names on their line and out of the terminal's control", () => {
    const { summary } = runRecord();
    const hostile = {
      ...summary,
      job: "\u001b]0;x\u0007a\nb",
      incidents: [{ kind: "k\u009b2J", at_ms: 1, subject: "\r\u202es", detail: "\u001bc" }],
    };
    const text = summaryText(hostile);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: there must be none
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    expect(text.split("\n")).toHaveLength(11);
  });

  it("tells a job without rewards by its loss", () => {
    const { summary } = runRecord();
    const text = summaryText({ ...summary, reward_first: null, reward_last: null, loss_first: 2.5, loss_last: 0.125 });
    expect(text).toContain("loss        2.500 → 0.125");
    const losses = { held_out_loss_first: 1.5, held_out_loss_last: 0.25 };
    expect(summaryText({ ...summary, ...losses })).toMatch(/ {2}held-out +loss 1\.500 → 0\.250\n +\d.* % exact/);
    const unanswered = summaryText({ ...summary, ...losses, eval_first: null, eval_last: null });
    expect(unanswered).toContain("loss 1.500 → 0.250");
    expect(unanswered).not.toMatch(/→ \S+ % exact/);
    expect(text).not.toContain("reward");
  });

  it("lists a few incidents and counts the rest", () => {
    const { summary } = runRecord();
    const incidents = Array.from({ length: 100 }, (_, index) => ({
      kind: "member.died",
      at_ms: index,
      subject: "r",
      detail: "",
    }));
    const text = summaryText({ ...summary, incidents });
    expect(text).toContain("100 × member.died");
    expect(text).toContain("and 88 more");
  });

  it("says by how much a ledger does not add up", () => {
    const ledger = { admitted: 10, trained: 5, aborted: 1, quarantined: 1, pending: 1 };
    expect(ledgerEquation(ledger)).toBe("10 admitted ≠ 5 trained + 1 aborted + 1 quarantined + 1 pending  (off by 2)");
  });
});

describe("text from outside", () => {
  it.each([
    ["\u001b[31mred\u001b[0m", "red"],
    ["\u001b]8;;http://x\u001b\\link\u001b]8;;\u0007", "link"],
    ["\u001bPdcs\u001b\\after", "after"],
    ["\u009b2Jx", "x"],
    ["\u001bcx", "x"],
    ["a\u0000b\u0008c\u007fd", "abcd"],
    ["line\r\nbreak\ttab", "line break tab"],
    ["\u202eabc\u2066\u200b\ufeff", "abc"],
    ["\ud800x", "\ufffdx"],
    ["é 日本 👍🏽", "é 日本 👍🏽"],
  ])("cleans %j to %j", (text, clean) => {
    expect(cleanLine(text)).toBe(clean);
  });

  it("cuts to the limit without splitting a character", () => {
    expect(cleanLine("👍".repeat(10), 4)).toBe("👍👍👍…");
  });

  it("keeps lines and indents of a block, and bounds it", () => {
    expect(cleanBlock("[a]\n\tb = 1\u001b[2J\r\n  c\n", 3)).toBe("[a]\n  b = 1\n  c\n… 1 more lines");
  });
});

describe("figures", () => {
  it("are grouped, rounded and never NaN", () => {
    expect([figure(1234567.891, 1), figure(Number.NaN), figure(null), percent(0.12345), percent(null)]).toEqual([
      "1,234,567.9",
      "–",
      "–",
      "12.3 %",
      "–",
    ]);
    expect([compact(0), compact(940), compact(38_210), compact(1_250_000), compact(Number.POSITIVE_INFINITY)]).toEqual([
      "0",
      "940",
      "38.2k",
      "1.25M",
      "–",
    ]);
    expect([duration(34.4), duration(1500), duration(Number.NaN)]).toEqual(["34 ms", "1.5 s", "–"]);
  });

  it.each([
    [0, 1, 4, [0, 0.25, 0.5, 0.75, 1], 2],
    [0.42, 0.96, 4, [0.4, 0.6, 0.8, 1], 1],
    [0, 0, 4, [0, 0.25, 0.5, 0.75, 1], 2],
    [7, 7, 2, [0, 5, 10, 15], 0],
    [-3, 1000, 4, [-500, 0, 500, 1000], 0],
  ])("of an axis from %d to %d are round", (low, high, count, ticks, digits) => {
    const scale = scaleOf(low, high, count);
    expect(scale.ticks.map((tick) => Number(tick.toFixed(6)))).toEqual(ticks);
    expect(scale.digits).toBe(digits);
  });
});
