/** What a holder saves of unfinished groups outlives it. */
import type { WorkItem } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applySaved } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { applyReturned, applySavedGroups } from "../src/controller/groups/apply-groups.ts";
import { releaseHolder, releaseLease } from "../src/controller/groups/leases.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, receiptOf, reportFrom, working } from "./states.ts";

const train = (index: number) => ({ purpose: "train" as const, step: 4, index, attempt: 0 });

describe("groups.saved", () => {
  const leases = { "1-1": { holder: "r0", items: [train(0), train(1)], dueAtMs: 9_000 } };
  const start = (patch: Partial<ControllerState> = {}): ControllerState =>
    working({
      members: ["p0", "r0", "r1"],
      patch: { leases, groups: { 4: { ...groupsOf(4, 0), queue: [] } }, sampled: { groups: 2, tokens: 200 }, ...patch },
    });
  const partial = { streamSeq: 40, tokens: 30 };
  const saved = (state: ControllerState, from: string, items: readonly WorkItem[] = [{ ...train(1), partial }]) =>
    applySavedGroups(
      state,
      reportFrom(state, from, { kind: "groups.saved", body: { leaseId: "1-1", items: [...items] } }),
    ).state;
  const died = { holder: "r0", reason: "died", failure: "engine_crash" } as const;

  it("goes to whoever has the group after the death of its holder, and is not counted as wasted", () => {
    const { state, effects } = releaseHolder(saved(start(), "r0"), died);
    expect(state.groups[4]?.queue).toMatchObject([{ index: 1, partial }, { index: 0 }]);
    expect(state.groups[4]?.queue[1]).not.toHaveProperty("partial");
    expect(bodiesOf(effects, "groups.released")).toMatchObject([{ tokensWasted: 100 + (100 - 30) }]);
  });

  it("goes to whoever has the group after its lease expired", () => {
    const { state } = releaseLease(saved(start(), "r0"), "1-1", { reason: "expired", failure: null });
    expect(state.groups[4]?.queue).toMatchObject([{ index: 1, partial }, { index: 0 }]);
  });

  it("is replaced by newer tokens only", () => {
    const newer = { ...train(1), partial: { streamSeq: 41, tokens: 60 } };
    const twice = saved(saved(start(), "r0", [newer]), "r0");
    expect(twice.leases["1-1"]?.items).toEqual([train(0), newer]);
  });

  it("is dropped when it comes from somebody else, is of a group that is done, or may be purged already", () => {
    const state = start();
    expect(saved(state, "r1")).toBe(state);
    expect(saved(state, "r0", [{ ...train(3), partial }]).leases).toEqual(leases);
    expect(saved(start({ purgedSeq: 41 }), "r0").leases).toEqual(leases);
    const pieces = { ...train(1), partial: { streamSeq: 40, firstSeq: 30, tokens: 30 } };
    expect(saved(start({ purgedSeq: 31 }), "r0", [pieces]).leases).toEqual(leases);
  });

  it("still counts when the work is handed back without anything newer", () => {
    const body = { leaseId: "1-1", items: [train(1)], reason: "leaving" };
    const state = saved(start(), "r0");
    const returned = applyReturned(state, reportFrom(state, "r0", { kind: "groups.returned", body }));
    expect(returned.state.groups[4]?.queue).toEqual([{ index: 1, attempt: 0, partial }]);
  });

  it("is kept in the groups stream for as long as somebody may go on with it", () => {
    const body = {
      step: 3,
      version: 3,
      lineage: 0,
      path: "s3",
      manifestDigest: "0".repeat(32),
      bytes: 1,
      durationMs: 1,
    };
    const history = { 3: [{ ...receiptOf(3, 0), streamSeq: 90 }] };
    const state = saved(start({ history }), "r0");
    const kept = applySaved(state, reportFrom(state, "p0", { kind: "checkpoint.saved", body }));
    expect(kept.effects).toContainEqual({ type: "groups.purge", beforeSeq: 40 });
    const long = saved(start({ history }), "r0", [
      { ...train(1), partial: { streamSeq: 40, firstSeq: 30, tokens: 30 } },
    ]);
    const before = applySaved(long, reportFrom(long, "p0", { kind: "checkpoint.saved", body }));
    expect(before.effects).toContainEqual({ type: "groups.purge", beforeSeq: 30 });
  });
});
