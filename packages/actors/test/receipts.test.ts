import { messageTable, trainingDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { causesOf, receiptOf } from "../src/rollout/receipts.ts";
import { abortedBy, group, trajectory } from "./support/groups.ts";

/** A place in the groups stream, and the version of the lease. */
const at = (version: number) => ({ place: { streamSeq: 1 }, version });

describe("the receipt of a group", () => {
  it("says where the group lies, and counts trajectories, response tokens and rewards", () => {
    const whole = [trajectory({ length: 3, reward: 1 }), trajectory({ length: 5, reward: 0.5, status: "truncated" })];
    const receipt = receiptOf(
      { ...group(4, 2, whole), attempt: 1 },
      { place: { streamSeq: 77, firstSeq: 70 }, version: 9 },
    );
    expect(receipt).toEqual({
      step: 4,
      index: 2,
      attempt: 1,
      streamSeq: 77,
      firstSeq: 70,
      version: 0,
      completed: 2,
      aborted: 0,
      tokens: 8,
      rewardSum: 1.5,
    });
  });

  it("counts aborted trajectories and takes nothing else from them", () => {
    const aborted = { ...trajectory({ length: 9, reward: 5, version: 1 }), status: "aborted" as const };
    const healthy = trajectory({ length: 2, reward: 1, version: 3 });
    const receipt = receiptOf(group(1, 0, [healthy, aborted, healthy]), at(0));
    expect(receipt).toMatchObject({ completed: 2, aborted: 1, tokens: 4, rewardSum: 2, version: 3 });
  });

  it("counts a healthy trajectory without a healthy sibling as aborted: it has nothing to be compared with", () => {
    const receipt = receiptOf(group(1, 0, [trajectory({ version: 3 }), abortedBy("Error", "x")]), at(4));
    expect(receipt).toMatchObject({ completed: 0, aborted: 2, tokens: 0, rewardSum: 0, version: 4 });
  });

  it("counts it as it is where answers are given and not compared", () => {
    const training = { ...trainingDefaults, algorithm: "sft" as const };
    const receipt = receiptOf(group(1, 0, [trajectory({ length: 3, version: 2 })]), { ...at(4), training });
    expect(receipt).toMatchObject({ completed: 1, aborted: 0, tokens: 3, version: 2 });
  });

  it("names the oldest version of all segments", () => {
    const mixed = trajectory({
      length: 4,
      segments: [
        { version: 5, from: 0, to: 1 },
        { version: 6, from: 1, to: 4 },
      ],
    });
    expect(receiptOf(group(1, 0, [trajectory({ version: 6 }), mixed]), at(9)).version).toBe(5);
  });

  it("names the version that was leased when nothing was generated", () => {
    const receipt = receiptOf(group(1, 0, [abortedBy("Error", "x"), abortedBy("Error", "x")]), at(6));
    expect(receipt).toMatchObject({ version: 6, completed: 0, aborted: 2, tokens: 0, rewardSum: 0 });
  });
});

describe("the causes of aborted trajectories", () => {
  it("are counted together over all groups when name and message are equal", () => {
    const late = abortedBy("TimeoutError", "judging took too long");
    const other = abortedBy("TypeError", "judging took too long");
    const groups = [group(1, 0, [late, trajectory(), other]), group(1, 1, [late, late])];
    expect(causesOf(groups)).toEqual([
      { name: "TimeoutError", message: "judging took too long", count: 3, sample: "1.0/0" },
      { name: "TypeError", message: "judging took too long", count: 1, sample: "1.0/2" },
    ]);
  });

  it("are one when class and top frame are equal, with the stack, message and sample of the first", () => {
    const at = (message: string, frame: string) => {
      const stack = `TypeError: ${message}\n    at ${frame}\n    at elsewhere`;
      return trajectory({ status: "aborted", error: { name: "TypeError", message, kind: "user_error", stack } });
    };
    const groups = [
      group(2, 7, [
        trajectory(),
        at("id 4", "judge (r.mjs:3:9)"),
        at("id 5", "judge (r.mjs:3:9)"),
        at("id 6", "other"),
      ]),
    ];
    expect(causesOf(groups)).toMatchObject([
      { message: "id 4", frame: "judge (r.mjs:3:9)", failure: "user_error", count: 2, sample: "2.7/1" },
      { message: "id 6", frame: "other", count: 1, sample: "2.7/3" },
    ]);
    expect(causesOf(groups)[0]?.stack).toContain("id 4");
  });

  it("are none when nothing was aborted", () => {
    expect(causesOf([group(1, 0, [trajectory()])])).toEqual([]);
  });

  it("are at most as many kinds as a report may carry, the first ones, with all their counts", () => {
    const kinds = Array.from({ length: 40 }, (_, i) => abortedBy("Error", `cause ${i}`));
    const causes = causesOf([group(1, 0, kinds), group(1, 1, kinds)]);
    expect(causes.map(({ message }) => message)).toEqual(Array.from({ length: 32 }, (_, i) => `cause ${i}`));
    expect(causes.every(({ count }) => count === 2)).toBe(true);
    const receipts = [receiptOf(group(1, 0, kinds), at(0))];
    const report = { leaseId: "1-1", receipts, causes, durationMs: 1 };
    expect(messageTable["groups.completed"].body.safeParse(report).success).toBe(true);
  });
});
