import { describe, expect, it } from "vitest";
import { noteHeldOut } from "../src/controller/groups/held-out.ts";
import { type HeldOutResult, shareOf } from "../src/controller/groups/held-out-state.ts";
import { initialControllerState } from "../src/controller/state.ts";
import { bodiesOf, planWith } from "./states.ts";

/** What is said after each of these evaluations of 512 prompts. */
function alarmsAfter(results: readonly number[], prompts = 512): readonly (readonly string[])[] {
  let state = initialControllerState(planWith());
  return results.map((correct, version) => {
    const change = noteHeldOut(state, { version, prompts, correct } satisfies HeldOutResult);
    state = change.state;
    return bodiesOf(change.effects, "alarm.raised").map(({ alarm, detail }) => `${alarm}: ${detail}`);
  });
}

describe("held-out prompts", () => {
  it("that were answered far better before are an alarm with both shares, versions, and what may help", () => {
    const [first, second] = alarmsAfter([374, 200]);
    expect(first).toEqual([]);
    expect(second).toEqual([
      "held-out: held-out exact match fell from 73.0 % at version 0 to 39.1 % at version 1: a lower optimizer.lr or a longer optimizer.lr_warmup_steps may help",
    ]);
  });

  it("are one alarm while it lasts, and another after a recovery, against the best of all", () => {
    const counts = alarmsAfter([374, 200, 210, 190, 400, 300, 290]).map(({ length }) => length);
    expect(counts).toEqual([0, 1, 0, 0, 0, 1, 0]);
  });

  it("are none for what chance does", () => {
    expect(alarmsAfter([374, 330, 340, 335]).flat()).toEqual([]);
    // Of eight prompts three less are nothing.
    expect(alarmsAfter([6, 3, 3], 8).flat()).toEqual([]);
    expect(alarmsAfter([64, 0], 64).flat()).toHaveLength(1);
  });

  it("that fall by exactly a tenth of them are one, and by less are none", () => {
    expect(alarmsAfter([100, 0], 1_000).flat()).toHaveLength(1);
    expect(alarmsAfter([1_000, 0], 10_001).flat()).toEqual([]);
    expect(alarmsAfter([0, 0], 0).flat()).toEqual([]);
    expect(alarmsAfter([1, 0], 1).flat()).toEqual([]);
  });

  it("may be a single one, of which all or nothing is right", () => {
    expect([1, 0].map((correct) => shareOf({ version: 0, prompts: 1, correct }))).toEqual([1, 0]);
    expect(shareOf({ version: 0, prompts: 0, correct: 0 })).toBe(0);
  });

  it("that do as well as the best again are the best from then on", () => {
    expect(alarmsAfter([400, 400, 100]).flat()[0]).toContain("fell from 78.1 % at version 1 to");
  });

  it("are not certain of the next prompt where all of them were right: of 24 a fall to 17 may be chance, one to 16 is none", () => {
    expect(alarmsAfter([24, 17], 24).flat()).toEqual([]);
    expect(alarmsAfter([24, 16], 24).flat()).toHaveLength(1);
  });
});
