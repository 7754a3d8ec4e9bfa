/** Health of managed replicas: the states of semantics 1, and what moves one to the next. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type HealthFacts, nextHealth } from "../src/controller/fleet/fleet-health.ts";

const gone: HealthFacts = {
  wasMember: true,
  isMember: false,
  isSameLife: false,
  isHolding: false,
  isSuspect: false,
  isLeaving: false,
  isPlaced: true,
};
const there: HealthFacts = { ...gone, isMember: true, isSameLife: true };
const holding: HealthFacts = { ...there, isHolding: true };

describe("the health of a replica", () => {
  it.each([
    ["STARTING", holding, "HEALTHY"],
    ["STARTING", there, "STARTING"],
    ["STARTING", { ...gone, wasMember: false }, "STARTING"],
    ["STARTING", gone, "DEAD"],
    ["HEALTHY", { ...holding, isSuspect: true }, "SUSPECT"],
    ["HEALTHY", there, "HEALTHY"],
    ["SUSPECT", holding, "HEALTHY"],
    ["SUSPECT", gone, "DEAD"],
    ["DEAD", gone, "RESTARTING"],
    ["DEAD", { ...gone, isPlaced: false }, "DEAD"],
    ["RESTARTING", gone, "RESTARTING"],
    ["RESTARTING", { ...there, isSameLife: false }, "STALE"],
    ["STALE", there, "STALE"],
    ["STALE", holding, "HEALTHY"],
    ["STALE", gone, "DEAD"],
    ["STALE", { ...holding, isLeaving: true }, "DRAINING"],
    ["RETIRED", holding, "RETIRED"],
  ] as const)("%s with %j becomes %s", (from, facts, to) => {
    expect(nextHealth(from, facts)).toBe(to);
  });

  it.each(["DEAD", "RESTARTING", "STALE"] as const)("%s does not look at suspicion, gone or there", (health) => {
    for (const facts of [gone, there])
      expect(nextHealth(health, { ...facts, isSuspect: true })).toBe(nextHealth(health, facts));
  });

  it.each(["STARTING", "STALE"] as const)(
    "%s is not HEALTHY while it is suspected, whatever it acknowledged",
    (health) => {
      expect(nextHealth(health, holding)).toBe("HEALTHY");
      expect(nextHealth(health, { ...holding, isSuspect: true })).toBe(health);
    },
  );

  it("after a death is HEALTHY again only through STALE and an acknowledged digest of the committed version", () => {
    const facts = fc.record({
      wasMember: fc.constant(true),
      isMember: fc.boolean(),
      isSameLife: fc.boolean(),
      isHolding: fc.boolean(),
      isSuspect: fc.boolean(),
      isLeaving: fc.constant(false),
      isPlaced: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(facts, { maxLength: 40 }), (steps) => {
        let health = nextHealth("HEALTHY", gone);
        for (const step of steps) {
          const next = nextHealth(health, step);
          if (next === "HEALTHY" && health !== "SUSPECT" && health !== "HEALTHY")
            expect({ health, isHolding: step.isHolding }).toEqual({ health: "STALE", isHolding: true });
          health = next;
        }
      }),
    );
  });
});
