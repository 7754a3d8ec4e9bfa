/** What a job knows before its first record, and the two small changes that many rules make. */
import { expect, it } from "vitest";
import { endingWith, initialControllerState, membersOf, withStale } from "../src/controller/state.ts";
import { memberOf, planWith } from "./states.ts";

const begun = () => initialControllerState(planWith());

/** Numbers and truths in a value, by their path. */
function leavesOf(value: unknown, path = ""): [string, unknown][] {
  if (typeof value === "number" || typeof value === "boolean") return [[path, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => leavesOf(each, `${path}.${key}`));
}

it("a job has counted nothing and is in its first attempt at its first step; no version is evaluated, not even the first", () => {
  const state = begun();
  const { plan: _, progress: __, restore: ___, fleet, ...tables } = state;
  const leaves = Object.fromEntries([...leavesOf(tables), ...leavesOf({ ...fleet, wanted: {} }, ".fleet")]);
  const set = Object.fromEntries(Object.entries(leaves).filter(([, value]) => value !== 0 && value !== false));
  expect(set).toEqual({ ".step.step": 1, ".step.attempt": 1, ".evaluatedVersion": -1 });
  expect(state.restore).toMatchObject({ lineage: 0, version: 0 });
});

it("an end is to be announced when it is decided", () => {
  expect(endingWith(begun(), "failed", "so").ending).toEqual({ outcome: "failed", reason: "so", announced: false });
});

it("what came too late is counted one by one", () => {
  expect(withStale(withStale(begun())).dropped).toEqual({ duplicate: 0, stale: 2 });
});

it("members of a role are in order of arrival, wherever their rows are", () => {
  const members = { p1: memberOf("p1", 7), r0: memberOf("r0", 1), p0: memberOf("p0", 3) };
  const idsOf = (role: "policy" | "rollout" | "checkpoint") =>
    membersOf({ ...begun(), members }, role).map(({ id }) => id);
  expect([idsOf("policy"), idsOf("rollout"), idsOf("checkpoint")]).toEqual([["p0", "p1"], ["r0"], []]);
});
