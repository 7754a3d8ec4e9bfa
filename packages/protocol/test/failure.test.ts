import { describe, expect, it } from "vitest";
import {
  actionsByKind,
  decideFailure,
  type FailurePolicy,
  failureDefaults,
  failureKinds,
  failureRuleOf,
} from "../src/index.ts";
import { backoffMaxMs } from "../src/internal.ts";

const policy: FailurePolicy = {
  ...failureDefaults,
  transport: { action: "isolate", attempts: 4, backoffMs: 100 },
  checkpointIo: { action: "retry", attempts: 2, backoffMs: 1_000 },
};

describe("what is done about a failure", () => {
  it.each(failureKinds)("of kind %s is by default one of the ends that this kind can have", (kind) => {
    expect(actionsByKind[kind]).toContain(failureRuleOf(failureDefaults, kind).action);
  });

  it.each([
    ["transport", 1, "retry"],
    ["transport", 2, "retry"],
    ["transport", 3, "isolate"],
    ["timeout", 1, "isolate"],
    ["user_error", 1, "isolate"],
    ["engine_crash", 2, "retry"],
    ["engine_crash", 3, "quarantine"],
    ["oom", 1, "retry"],
    ["oom", 2, "quarantine"],
    ["non_finite", 2, "retry"],
    ["non_finite", 3, "quarantine"],
    ["checkpoint_io", 1, "retry"],
    ["checkpoint_io", 99, "retry"],
  ] as const)("by default: %s, failure %i: %s", (kind, failures, action) => {
    expect(decideFailure(failureDefaults, kind, failures)).toMatchObject({ action });
  });

  it("waits twice as long before each further attempt, up to a bound", () => {
    const waits = [1, 2, 3, 4].map((failures) => decideFailure(policy, "transport", failures));
    expect(waits.map(({ afterMs }) => afterMs)).toEqual([100, 200, 400, 0]);
    expect(waits.at(-1)?.action).toBe("isolate");
    expect(decideFailure(policy, "checkpoint_io", 1_000).afterMs).toBe(backoffMaxMs);
  });

  it.each(failureKinds)("of kind %s is the end of the job when it fails fast", (kind) => {
    expect(decideFailure({ ...policy, failFast: true }, kind, 1)).toMatchObject({ action: "abort", afterMs: 0 });
  });

  it("says which rule decided", () => {
    expect(decideFailure(policy, "transport", 2).reason).toBe("transport: failure 2 of 4");
  });
});
