import { type CauseCount, type FailurePolicy, failureDefaults } from "@muster/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { causeKeyOf } from "../src/cause-key.ts";
import { applyCompleted } from "../src/controller/groups/apply-groups.ts";
import { isKnownCause, noteQuarantined, noteReceipts, planCeiling } from "../src/controller/groups/given-up.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, planWith, receiptOf, reportFrom, working } from "./states.ts";

const cause = (patch: Partial<CauseCount> = {}): CauseCount => ({
  name: "TypeError",
  message: "id 1",
  frame: "judge (r.mjs:3:9)",
  stack: "TypeError: id 1",
  sample: "4.0/1",
  failure: "user_error",
  count: 1,
  ...patch,
});

const jobWith = (patch: Partial<FailurePolicy>): ControllerState =>
  working({
    plan: planWith({ failure: { ...failureDefaults, ...patch } }),
    patch: {
      groups: { 4: groupsOf(4, 0) },
      leases: { "1-1": { holder: "r0", items: [0, 1].map(itemOf), dueAtMs: 9_000 } },
    },
  });
const itemOf = (index: number) => ({ purpose: "train" as const, step: 4, index, attempt: 0 });

/** Notes groups of `completed` and `aborted` trajectories. */
function noted(
  state: ControllerState,
  groups: readonly (readonly [completed: number, aborted: number])[],
): ControllerState {
  return groups.reduce((next, [completed, aborted]) => {
    const causes = aborted > 0 ? [cause({ count: aborted })] : [];
    return noteReceipts(next, [receiptOf(4, 0, { completed, aborted })], causes);
  }, state);
}

describe("the share of trajectories that are given up", () => {
  const policy = { abortShareMax: 0.1, abortWindow: 100, sameErrorMax: 0 };

  it("may be at its ceiling, and ends the job with the grouped root causes beyond it", () => {
    const at = noted(jobWith(policy), [[2, 10]]);
    expect(planCeiling(at)).toBeNull();
    const over = planCeiling(noted(at, [[5, 1]]));
    // Not announced yet: otherwise nobody would hear of the end.
    expect(over?.state.ending).toMatchObject({ outcome: "failed", announced: false });
    expect(over?.state.ending?.reason).toContain("11 of the last 18 trajectories were given up");
    expect(over?.state.ending?.reason).toContain("11 × TypeError: id 1 at judge (r.mjs:3:9) (first: 4.0/1)");
  });

  it("raises one alarm instead where the job says so, and another one after it was below the ceiling again", () => {
    const state = noted(jobWith({ ...policy, atCeiling: "alarm" }), [[0, 20]]);
    const alarmed = planCeiling(state);
    expect(bodiesOf(alarmed?.effects ?? [], "alarm.raised")).toMatchObject([{ alarm: "given-up" }]);
    expect(alarmed?.state.ending).toBeNull();
    const next = alarmed?.state ?? state;
    expect(planCeiling(next)).toBeNull();
    const healthy = planCeiling(noted(next, [[200, 0]]))?.state ?? next;
    expect(planCeiling(healthy)).toBeNull();
    expect(planCeiling(noted(healthy, [[0, 20]]))?.effects).toHaveLength(1);
  });

  it("forgets what is older than its window, and needs little room for it", () => {
    const groups = fc.array(fc.tuple(fc.nat(8), fc.nat(8)), { maxLength: 400 });
    fc.assert(
      fc.property(groups, fc.integer({ min: 1, max: 200 }), (list, abortWindow) => {
        const { recent } = noted(jobWith({ ...policy, abortWindow }), list).givenUp;
        const seen = recent.reduce((sum, part) => sum + part.trajectories, 0);
        const all = list.reduce((sum, [completed, aborted]) => sum + completed + aborted, 0);
        expect(seen).toBeGreaterThanOrEqual(Math.min(all, abortWindow));
        expect(seen).toBeLessThan(abortWindow + abortWindow / 64 + 17);
        expect(recent.length).toBeLessThanOrEqual(130);
      }),
    );
  });

  it("counts quarantined groups too", () => {
    const state = [0, 1, 2, 3, 4].reduce(
      (next) => noteQuarantined(next, cause()),
      jobWith({ ...policy, abortShareMax: 0.08 }),
    );
    expect(planCeiling(state)?.state.ending?.outcome).toBe("failed");
  });

  it("of 1 is no ceiling", () => {
    expect(planCeiling(noted(jobWith({ abortShareMax: 1, sameErrorMax: 0 }), [[0, 100_000]]))).toBeNull();
  });
});

describe("failures in a row", () => {
  const policy = { abortShareMax: 1, sameErrorMax: 5 };

  it("with one root cause end the job", () => {
    const five = noted(jobWith(policy), [
      [0, 3],
      [0, 2],
    ]);
    expect(planCeiling(five)).toBeNull();
    expect(planCeiling(noted(five, [[0, 1]]))?.state.ending?.reason).toContain("6 trajectories in a row");
  });

  it("are a row no more after a healthy trajectory or another cause", () => {
    const five = noted(jobWith(policy), [[0, 5]]);
    expect(
      planCeiling(
        noted(five, [
          [1, 0],
          [0, 1],
        ]),
      ),
    ).toBeNull();
    const other = noteReceipts(five, [receiptOf(4, 0, { completed: 0, aborted: 1 })], [cause({ frame: "elsewhere" })]);
    expect(planCeiling(noted(other, [[0, 4]]))).toBeNull();
  });
});

describe("a root cause", () => {
  it("is its class and top frame, whatever the message says", () => {
    expect(causeKeyOf(cause({ message: "id 2" }))).toBe(causeKeyOf(cause()));
    expect(causeKeyOf(cause({ name: "RangeError" }))).not.toBe(causeKeyOf(cause()));
    expect(causeKeyOf({ name: "Error", message: "a" })).not.toBe(causeKeyOf({ name: "Error", message: "b" }));
  });

  it("is told with its stack the first time, and counted after that", () => {
    const report = (state: ControllerState, index: number) => {
      const receipts = [receiptOf(4, index, { completed: 1, aborted: 1 })];
      const body = { leaseId: "1-1", receipts, causes: [cause({ message: `id ${index}` })], durationMs: 1 };
      return applyCompleted(state, reportFrom(state, "r0", { kind: "groups.completed", body }));
    };
    const first = report(jobWith({}), 0);
    expect(bodiesOf(first.effects, "groups.aborted")).toMatchObject([{ holder: "r0", stack: "TypeError: id 1" }]);
    const second = report(first.state, 1);
    expect(bodiesOf(second.effects, "groups.aborted")[0]).not.toHaveProperty("stack");
    expect(second.state.givenUp.causes).toMatchObject([{ message: "id 0", count: 2, sample: "4.0/1" }]);
    expect(isKnownCause(second.state, cause())).toBe(true);
  });

  it("of a result that came twice is counted once", () => {
    const state = jobWith({});
    const receipts = [receiptOf(4, 0, { completed: 1, aborted: 1 })];
    const body = { leaseId: "1-1", receipts, causes: [cause()], durationMs: 1 };
    const event = reportFrom(state, "r0", { kind: "groups.completed", body });
    const once = applyCompleted(state, event);
    expect(applyCompleted(once.state, event).state.givenUp).toEqual(once.state.givenUp);
  });

  it("is forgotten when there are too many and it is the rarest", () => {
    const state = Array.from({ length: 40 }, (_, i) => cause({ frame: `f${i}`, count: i + 1 })).reduce(
      (next, one) => noteReceipts(next, [receiptOf(4, 0, { completed: 0, aborted: one.count })], [one]),
      jobWith({}),
    );
    expect(state.givenUp.causes).toHaveLength(32);
    expect(state.givenUp.causes.at(-1)?.frame).toBe("f39");
    expect(state.givenUp.causes.some(({ frame }) => frame === "f0")).toBe(false);
  });
});

describe("a failure whose rule ends the job", () => {
  it("ends it at the first trajectory, with its cause", () => {
    const userError = { action: "abort", attempts: 1, backoffMs: 0 } as const;
    const state = noted(jobWith({ userError }), [[7, 1]]);
    expect(planCeiling(state)?.state.ending?.reason).toContain("a failure ends the job: 1 × TypeError: id 1");
    expect(planCeiling(noted(jobWith({ failFast: true }), [[7, 1]]))?.state.ending?.outcome).toBe("failed");
    expect(planCeiling(noted(jobWith({}), [[7, 1]]))).toBeNull();
  });
});

describe("what is given up, in numbers", () => {
  it("is a whole group where one is quarantined, in a row with the ones before", () => {
    const state = [0, 1, 2].reduce((next) => noteQuarantined(next, cause()), jobWith({}));
    const { recent, run, causes } = state.givenUp;
    expect(recent.reduce((sum, { trajectories }) => sum + trajectories, 0)).toBe(6);
    expect(recent.reduce((sum, { givenUp }) => sum + givenUp, 0)).toBe(6);
    expect([run.count, causes.map(({ count }) => count)]).toEqual([6, [6]]);
  });

  it("is no row where a trajectory was healthy, or two causes came together", () => {
    const healthy = noted(jobWith({}), [[1, 1]]).givenUp.run;
    expect(healthy.count).toBe(0);
    const causes = [cause(), cause({ frame: "elsewhere" })];
    const two = noteReceipts(jobWith({}), [receiptOf(4, 0, { completed: 0, aborted: 2 })], causes).givenUp.run;
    expect(two).toEqual({ key: "", count: 0 });
  });

  it("ends the job at the second of a row where one is allowed, and at none where that is 0", () => {
    const ends = (sameErrorMax: number, row: number) =>
      planCeiling(noted(jobWith({ abortShareMax: 1, sameErrorMax }), [[0, row]]))?.state.ending?.outcome;
    expect([ends(1, 1), ends(1, 2), ends(0, 99)]).toEqual([undefined, "failed", undefined]);
  });

  it("is counted over exactly the window where that is kept in single trajectories, and in 64 parts where it is larger", () => {
    const seen = (abortWindow: number, count: number) =>
      noted(
        jobWith({ abortWindow }),
        Array.from({ length: count }, () => [1, 0] as const),
      ).givenUp.recent;
    expect(seen(64, 63)).toHaveLength(63);
    expect(seen(64, 64)).toHaveLength(64);
    expect(seen(64, 80)).toHaveLength(64);
    expect(seen(640, 700).map(({ trajectories }) => trajectories)).toEqual(Array.from({ length: 64 }, () => 10));
  });

  it("is said in bounded words: five causes, the most frequent first, each message and frame cut", () => {
    const state = Array.from({ length: 7 }, (_, i) => i).reduce(
      (next, i) =>
        noteReceipts(
          next,
          [receiptOf(4, 0, { completed: 0, aborted: i + 1 })],
          [cause({ name: `E${i}`, message: "m".repeat(300), frame: "f".repeat(300), count: i + 1 })],
        ),
      jobWith({ abortShareMax: 0.01, abortWindow: 100, sameErrorMax: 0, atCeiling: "alarm" }),
    );
    const detail = bodiesOf(planCeiling(state)?.effects ?? [], "alarm.raised")[0]?.detail ?? "";
    expect(detail.match(/ × E\d/g)).toEqual([" × E6", " × E5", " × E4", " × E3", " × E2"]);
    expect(detail.match(/m+ at f+ /g)).toEqual(
      Array.from({ length: 5 }, () => `${"m".repeat(200)} at ${"f".repeat(160)} `),
    );
    const ended = planCeiling({
      ...state,
      plan: { ...state.plan, failure: { ...state.plan.failure, atCeiling: "abort" } },
    });
    expect(ended?.state.ending?.reason).toHaveLength(1_800);
  });

  it("forgets the earliest of causes that are equally rare", () => {
    const state = Array.from({ length: 33 }, (_, i) => cause({ frame: `f${i}` })).reduce(
      (next, one) => noteReceipts(next, [receiptOf(4, 0, { completed: 0, aborted: 1 })], [one]),
      jobWith({}),
    );
    const frames = state.givenUp.causes.map(({ frame }) => frame);
    expect([frames.length, frames[0], frames.at(-1)]).toEqual([32, "f1", "f32"]);
  });
});
