import { describe, expect, it } from "vitest";
import { heldOf } from "../../src/chaos/audit.ts";

type Decision = Parameters<typeof heldOf>[0];

describe("the audit of a journal", () => {
  const state = (stale: number, incarnation = "i1") => ({
    dropped: { stale, duplicate: 0 },
    members: { p0: { incarnation } },
  });
  const event: Decision["event"] = {
    type: "weights.held",
    atMs: 1_000,
    from: "p0",
    role: "policy",
    incarnation: "i1",
    body: { lineage: 0, version: 7, sections: [], addresses: [], bytes: 0, durationMs: 0 },
  };

  it("believes a replica that says what it holds", () => {
    expect(heldOf({ event, before: state(2), after: state(2) })).toBe(event);
  });

  it("passes over a report that came again after newer ones, as the controller did", () => {
    expect(heldOf({ event, before: state(2), after: state(3) })).toBeNull();
  });

  it("passes over a report that came again after the end of its life", () => {
    expect(heldOf({ event, before: state(2, "i2"), after: state(2, "i2") })).toBeNull();
    const gone = { ...state(2), members: {} };
    expect(heldOf({ event, before: gone, after: gone })).toBeNull();
  });
});
