/** What is wrong with the end of a barrier, each seen by its rule. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { BarrierChecker } from "../src/barrier-checker.ts";
import { Judge } from "../src/judge.ts";

type End = Body<"barrier.ended">;

const key = { epoch: 0, iteration: 1, phase: 3 };
const arrival = (rank: number, patch: Partial<Body<"barrier.arrived">> = {}): Body<"barrier.arrived"> => ({
  ...{ ...key, rank, ranks: 3, items: 10, done: [{ from: 0, to: 4 }], ...patch },
  ...(rank === 0 ? { decision: "go" } : {}),
});
const whole: End = {
  ...{
    ...key,
    outcome: "whole",
    arrived: [0, 1, 2],
    missing: [],
    reason: "all",
    waitedMs: 5,
    coverage: 0.4,
    decision: "go",
  },
  shares: [
    { rank: 0, from: 4, to: 6 },
    { rank: 1, from: 6, to: 8 },
    { rank: 2, from: 8, to: 10 },
  ],
};

/** Three ranks arrive, and hear this. @returns Which rules are broken. */
function broken(ends: readonly Partial<End>[], then: (checker: BarrierChecker) => void = () => {}): string[] {
  const judge = new Judge({ nowMs: 0 });
  const checker = new BarrierChecker(judge, { onMissing: "eject", quorum: 2, items: 10, ranks: 3, timeoutMs: 1_000 });
  for (const rank of [0, 1, 2]) checker.arrives(arrival(rank));
  for (const end of ends) checker.ended({ ...whole, ...end });
  then(checker);
  return judge.violations.map(({ invariant }) => invariant);
}

describe("the end of a barrier", () => {
  it("is well when it is told again as it was, and its ranks go on", () => {
    expect(broken([{}, {}], (checker) => [0, 1, 2].map((rank) => checker.passes(rank, whole)))).toEqual([]);
    const partial = {
      outcome: "partial",
      arrived: [0, 1],
      missing: [2],
      shares: [{ rank: 0, from: 4, to: 10 }],
    } as const;
    const late = { ...partial, arrived: [0, 1], missing: [2], waitedMs: 1_000, shares: [...partial.shares] };
    expect(broken([late])).toEqual([]);
    // It was named once: the barriers after that are whole without it.
    const after = (checker: BarrierChecker): void => {
      for (const rank of [0, 1]) checker.arrives(arrival(rank, { phase: 7 }));
      checker.ended({ ...whole, phase: 7, arrived: [0, 1], shares: [{ rank: 0, from: 4, to: 10 }] });
    };
    expect(broken([late], after)).toEqual([]);
    expect(broken([], after)).toEqual(["S38"]);
    const over = { reason: "the job has ended: all steps are done", shares: [] };
    expect(broken([{ ...over, outcome: "aborted", arrived: [0], missing: [1, 2] }])).toEqual([]);
  });

  it.each<[string, readonly Partial<End>[]]>([
    ["is told twice, and differently", [{}, { outcome: "aborted", shares: [] }]],
    ["counts who was never there", [{ arrived: [0, 1, 3] }]],
    ["misses who arrived", [{ missing: [2] }]],
    ["goes on below its quorum", [{ outcome: "partial", arrived: [0], shares: [{ rank: 0, from: 4, to: 10 }] }]],
    [
      "goes on before its deadline",
      [{ outcome: "partial", arrived: [0, 1], missing: [2], waitedMs: 999, shares: [{ rank: 0, from: 4, to: 10 }] }],
    ],
    ["says nothing of who is missing", [{ arrived: [0, 1], shares: [{ rank: 0, from: 4, to: 10 }] }]],
    ["tells a decision that rank 0 has not taken", [{ decision: "stop" }]],
    ["counts as finished what nobody has done", [{ coverage: 1, shares: [] }]],
    [
      "is given up though its ranks agreed to go on or to wait",
      [{ outcome: "aborted", arrived: [0], missing: [1, 2], shares: [] }],
    ],
    ["leaves an item to nobody", [{ shares: whole.shares.slice(0, 2) }]],
    ["deals an item to two", [{ shares: [...whole.shares.slice(0, 2), { rank: 2, from: 7, to: 9 }] }]],
    ["deals work to who is not there", [{ arrived: [0, 1] }]],
    ["is of a barrier where nobody was", [{ iteration: 9 }]],
  ])("is seen when it %s", (_, ends) => {
    expect(new Set(broken(ends))).toEqual(new Set(["S38"]));
  });

  it("is seen when a rank goes on that it does not count, or after it was given up", () => {
    expect(broken([{}], (checker) => checker.passes(4, whole))).toEqual(["S38"]);
    const given = { outcome: "aborted", reason: "the job has ended: x" } as const;
    expect(broken([{ ...given, shares: [] }], (checker) => checker.passes(0, whole))).toEqual(["S38"]);
  });

  it("is missed when it does not come in time, unless another epoch has begun", () => {
    expect(broken([], (checker) => checker.overdue(key))).toEqual(["L9"]);
    expect(broken([{}], (checker) => checker.overdue(key))).toEqual([]);
    const later = (checker: BarrierChecker): void => {
      checker.arrives(arrival(0, { epoch: 1 }));
      checker.overdue(key);
    };
    expect(broken([], later)).toEqual([]);
  });
});
