import { describe, expect, it } from "vitest";
import { applyEnded } from "../src/controller/members/evictions.ts";
import { working } from "./states.ts";

describe("the end of a process that is certain", () => {
  const body = { role: "rollout", host: "h", pid: 7, engineBuild: "b" } as const;
  const state = working({ patch: { waiting: { r9: { incarnation: "i9", body } } } });

  it("ends its own wait to be let in again, and nobody else's", () => {
    expect(applyEnded(state, { id: "r9", host: "h", pid: 7 }).waiting).toEqual({});
    for (const other of [
      { id: "r9", host: "h", pid: 8 },
      { id: "r9", host: "g", pid: 7 },
      { id: "r8", host: "h", pid: 7 },
    ])
      expect(applyEnded(state, other).waiting).toHaveProperty("r9");
  });
});
