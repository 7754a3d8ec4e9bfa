/** Which prompts a job draws, as leases and the ends of steps tell it. */
import type { ControllerState } from "@muster/machines/controller";
import { describe, expect, it } from "vitest";
import type { Decision } from "../src/journal-model.ts";
import { Judge } from "../src/judge.ts";
import { PositionChecker } from "../src/position-checker.ts";

interface Item {
  readonly step: number;
  readonly index: number;
  readonly position?: number;
}

const lease = (...items: readonly Item[]): Decision => {
  const state = { step: { step: 1 }, groups: {} } as unknown as ControllerState;
  const body = { items: items.map((item) => ({ purpose: "train", attempt: 0, ...item })) };
  const effects = [{ type: "command", kind: "groups.lease", body }] as unknown as Decision["effects"];
  return { event: {} as Decision["event"], before: state, after: state, effects };
};

const end = (step: number, size: number): Decision => {
  const receipts = Object.fromEntries(Array.from({ length: size }, (_, index) => [index, {}]));
  const before = { step: { step }, groups: { [step]: { receipts, quarantined: [] } } } as unknown as ControllerState;
  return { ...lease(), before, after: { ...before, step: { ...before.step, step: step + 1 } } };
};

function broken(...decisions: readonly Decision[]): readonly string[] {
  const judge = new Judge({ nowMs: 0 });
  const checker = new PositionChecker(judge, { groupsPerStep: 2 });
  for (const decision of decisions) checker.decided(decision);
  return judge.violations.map(({ invariant }) => invariant);
}

const first = [lease({ step: 1, index: 0 }, { step: 1, index: 1 }), end(1, 2)];

describe("the prompts of a job", () => {
  it("may follow each other, whatever the steps' sizes, and come again when a step runs again", () => {
    const second = [lease({ step: 2, index: 0, position: 2 }), end(2, 1)];
    expect(broken(...first, ...second, lease({ step: 3, index: 0, position: 3 }), end(3, 1), ...second)).toEqual([]);
  });

  it.each<[string, readonly Decision[], string]>([
    ["a prompt that is left out", [...first, lease({ step: 2, index: 0, position: 3 }), end(2, 1)], "S15"],
    ["a prompt that is drawn twice", [...first, lease({ step: 2, index: 0, position: 1 }), end(2, 1)], "S15"],
    [
      "a group that draws another prompt later",
      [lease({ step: 1, index: 0 }, { step: 1, index: 0, position: 7 })],
      "S16",
    ],
    ["a step that has another size when it runs again", [...first, end(1, 3)], "S16"],
  ])("are not right with %s", (_, decisions, invariant) => {
    expect(broken(...decisions)).toEqual([invariant]);
  });
});
