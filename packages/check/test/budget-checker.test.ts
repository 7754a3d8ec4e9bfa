import { describe, expect, it } from "vitest";
import { BudgetChecker } from "../src/budget-checker.ts";
import { shippedConfig } from "./support/config.ts";
import { decisionOf, memberOf, Trial } from "./support/decisions.ts";

const shipped = shippedConfig();
const config = { ...shipped, checkpoint: { ...shipped.checkpoint, everySteps: 1 } };
const saveMs = 3 * config.timing.checkpointMs;
const allowed = { progressMs: 1e9, promptMs: 60_000, membershipMs: 1_000, successionMs: 1e9 };

const base = {
  members: { p0: memberOf("p0", "policy"), c0: memberOf("c0", "checkpoint"), r0: memberOf("r0", "rollout") },
  ...{ leases: {}, groups: {}, weights: {}, ending: null, step: { step: 3 } },
};
const saved = (step: number | null): object => ({
  ...base,
  checkpoints: { saved: step === null ? null : { step } },
});

class Watch extends Trial {
  readonly #checker = new BudgetChecker(this, this.judge, { config, allowed, calmMs: 0 });

  at(nowMs: number, before: object, after: object = before): this {
    this.nowMs = nowMs;
    this.#checker.decided(decisionOf("controller.tick", before, after));
    return this;
  }
}

describe("a checkpoint that is due", () => {
  it("has three times as long as saving may take (L7)", () => {
    expect(new Watch().at(0, saved(null)).at(saveMs, saved(null)).broken).toEqual([]);
    expect(new Watch().at(0, saved(null)).at(saveMs + 1, saved(null)).broken).toEqual(["L7"]);
  });

  it("has all of that time again once another one became durable", () => {
    const watch = new Watch().at(0, saved(null)).at(saveMs + 1, saved(null), saved(1));
    expect(watch.at(2 * saveMs + 1, saved(1)).broken).toEqual([]);
    expect(watch.at(2 * saveMs + 2, saved(1)).broken).toEqual(["L7"]);
  });

  it("is none once it is durable, nor while nobody could write it", () => {
    expect(
      new Watch()
        .at(0, saved(null))
        .at(1, saved(null), saved(2))
        .at(9 * saveMs, saved(2)).broken,
    ).toEqual([]);
    const { c0: _, ...members } = base.members;
    const alone = { ...saved(null), members };
    expect(new Watch().at(0, alone).at(9 * saveMs, alone).broken).toEqual([]);
  });
});

describe("a group that is leased", () => {
  const items = [{ purpose: "train", step: 3, index: 0, attempt: 0 }];
  const leased = { ...saved(2), leases: { "1-1": { holder: "r0", items } }, groups: { 3: { receipts: {} } } };

  it("is done, or given up, in the time that its attempts may take (L2)", () => {
    const watch = new Watch().at(0, saved(2), leased);
    expect(watch.at(allowed.promptMs, leased).broken).toEqual([]);
    expect(watch.at(allowed.promptMs + 1, leased).broken).toEqual(["L2"]);
    const done = { ...leased, groups: { 3: { receipts: { 0: {} } } } };
    expect(
      new Watch()
        .at(0, saved(2), leased)
        .at(1, leased, done)
        .at(9 * allowed.promptMs, done).broken,
    ).toEqual([]);
  });
});
