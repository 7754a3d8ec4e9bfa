import { describe, expect, it } from "vitest";
import { reportLine, reportText, rowOf } from "../../src/bench/report.ts";

const rounds = {
  name: "a version",
  world: 3,
  bytes: 2 ** 28,
  seconds: [0.1, 0.2, 0.4],
  cpuSeconds: [0.5, 0.5, 1],
  delivered: 2 ** 29,
  others: [
    { with: "a peer", seconds: [0.8, 0.8, 0.8], target: 4 },
    { with: "a slow start", seconds: [null, 0.1, 0.2], target: 1 },
    { with: "nobody", seconds: [null, null, null], target: 7 },
  ],
};

describe("a row of a measurement", () => {
  it("is the median of the rounds, and of the ratios of the pairs", () => {
    const row = rowOf(rounds);
    expect(row.seconds).toBe(0.2);
    expect(row.cpuSecondsPerGib).toBe(1);
    expect(row.comparisons[0]).toMatchObject({ with: "a peer", seconds: 0.8, speed: 4, target: 4 });
  });

  it("leaves out rounds that a peer did not finish, and peers that finished none", () => {
    const [, slow, ...rest] = rowOf(rounds).comparisons;
    expect(slow).toMatchObject({ with: "a slow start", speed: 0.5 });
    expect(rest).toEqual([]);
  });

  it("says for each target whether it was reached", () => {
    const machine = { model: "cpu", cores: 2, memoryBytes: 1, kernel: "6", load: [1, 2] as const };
    const notes = ["gloo is not installed"];
    const text = reportText({ command: "weights", machine, rows: [rowOf(rounds)], notes, failure: "a member died" });
    expect(text).toContain("a version, W=3, 256 MiB: 200 ms, CPU 1.0 s/GiB, median of 3");
    expect(text).toMatch(/4\.00 × .*a peer.*wanted 4: yes/);
    expect(text).toMatch(/0\.500 × .*a slow start.*wanted 1: NO/);
    expect(text).toContain("note: gloo is not installed");
    expect(text).toContain("ended early: a member died");
  });

  it("is for programs a line of figures in the form of all benchmarks, with the whole report beside them", () => {
    const machine = { model: "cpu", cores: 2, memoryBytes: 1, kernel: "6", load: [1, 2] as const };
    const report = { command: "weights", machine, rows: [rowOf(rounds)], notes: [], failure: null };
    const line = JSON.parse(reportLine(report));
    expect(line).toEqual({
      bench: "weights",
      rows: [
        { name: "a version, W=3, 268435456 bytes", value: 0.2, unit: "s", aim: null, met: null },
        {
          ...{ name: "a version, W=3, 268435456 bytes, beside a peer", value: 4, unit: "times as fast" },
          ...{ aim: 4, met: true },
        },
        {
          ...{ name: "a version, W=3, 268435456 bytes, beside a slow start", value: 0.5, unit: "times as fast" },
          ...{ aim: 1, met: false },
        },
      ],
      report: JSON.parse(JSON.stringify(report)),
    });
  });
});
