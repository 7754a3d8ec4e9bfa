/** Who is blamed for the loss of a holder: a group that ends its holders is given up after a few of them, one that is in their way in a storm is not. */
import { failureDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { dispatchGroups } from "../src/controller/groups/dispatch-groups.ts";
import {
  failuresOf,
  isFromOutside,
  noteOutsideLoss,
  withOutsideLoss,
  withoutOutsideLosses,
} from "../src/controller/groups/outside-losses.ts";
import { applyExited } from "../src/controller/members/apply-membership.ts";
import { applyVerdict } from "../src/controller/members/apply-verdict.ts";
import { rebaseTimes } from "../src/controller/rebase-times.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { groupsOf, memberOf, planWith, reportFrom, working } from "./states.ts";

const held = { lineage: 0, version: 3 };
const failure = { ...failureDefaults, abortShareMax: 1, sameErrorMax: 0 };

/** A job whose step 4 has one group, and three samplers. */
const sampling = (groups = 1): ControllerState => {
  const plan = planWith({ groupsPerStep: groups, failure });
  const ledger = { admitted: groups * plan.groupSize, trained: 0, aborted: 0, quarantined: 0 };
  const members = ["p0", "p1", "r0", "r1", "r2"];
  return working({ plan, members, patch: { groups: { 4: groupsOf(4, 0, groups) }, ledger } });
};

const dispatched = (state: ControllerState): ControllerState => dispatchGroups(state)?.state ?? state;

/** A member ends by a signal, somebody sees it, and its next life joins. */
function ends(state: ControllerState, id: string, signal: string | null): ControllerState {
  const { host = "", pid = 0, role = "rollout" } = state.members[id] ?? {};
  const body = { id, role, host, pid, code: signal === null ? 1 : null, signal };
  const event = reportFrom(state, "operator", { kind: "process.exited", body });
  const { state: next } = applyExited(state, event);
  return { ...next, members: { ...next.members, [id]: memberOf(id, pid + 1, { held }) } };
}

const holderOf = (state: ControllerState, index = 0): string =>
  Object.values(state.leases).find(({ items }) =>
    items.some((item) => item.purpose === "train" && item.index === index),
  )?.holder ?? "nobody";

/** So many holders of a group are lost one after the other, each by this, and something else happens in between. */
function losing(
  state: ControllerState,
  { times, by, between = (now) => now }: Losing,
): { readonly state: ControllerState; readonly losses: number } {
  let next = dispatched(state);
  let losses = 0;
  for (; losses < times && !isGivenUp(next); losses++) next = dispatched(by(between(next), holderOf(next)));
  return { state: next, losses };
}

interface Losing {
  readonly times: number;
  readonly by: (state: ControllerState, holder: string) => ControllerState;
  readonly between?: (state: ControllerState) => ControllerState;
}

const isGivenUp = (state: ControllerState, index = 0): boolean => state.groups[4]?.quarantined.includes(index) ?? false;
const killed = (state: ControllerState, holder: string): ControllerState => ends(state, holder, "SIGKILL");
const crashed = (state: ControllerState, holder: string): ControllerState => ends(state, holder, "SIGSEGV");
const trainerKilled = (state: ControllerState): ControllerState => ends(state, "p1", "SIGKILL");

const silent = (state: ControllerState, holder: string): ControllerState => {
  const { incarnation, pid } = memberOf(holder, (state.members[holder]?.pid ?? 0) + 1);
  const known = withMember(state, holder, { incarnation });
  const verdict = { type: "verdict.dead", id: holder, incarnation, atMs: state.nowMs, kind: "silence" } as const;
  const { state: next } = applyVerdict(known, { ...verdict, silentMs: 10_000, evidence: "silent for 10 s" });
  return { ...next, evictions: {}, members: { ...next.members, [holder]: memberOf(holder, pid, { held }) } };
};

describe("a group whose holders are killed three times in a row", () => {
  it("is not given up where others are killed as well: it waits for another holder", () => {
    const { state } = losing(sampling(), { times: 3, by: killed, between: trainerKilled });
    expect(isGivenUp(state)).toBe(false);
    expect(holderOf(state)).not.toBe("nobody");
    expect(state.groups[4]?.outside).toEqual({ 0: { count: 3, light: 3 } });
  });

  it("is not given up where they fall silent beside others: with a host that is lost, or the way to it", () => {
    expect(isGivenUp(losing(sampling(), { times: 3, by: silent, between: trainerKilled }).state)).toBe(false);
    expect(isGivenUp(losing(sampling(), { times: 3, by: silent }).state)).toBe(true);
  });

  it("is given up where nobody else is: it may be what ends them", () => {
    expect(losing(sampling(), { times: 9, by: killed })).toMatchObject({ losses: 3 });
  });

  it("is given up where they crash, whatever happens to others", () => {
    for (const signal of ["SIGSEGV", "SIGABRT", null])
      expect(
        losing(sampling(), { times: 9, by: (state, id) => ends(state, id, signal), between: trainerKilled }).losses,
      ).toBe(3);
  });
});

describe("in a storm", () => {
  it("a group that ends its holders is given up all the same, after 4 × (attempts − 1) + 1 of them", () => {
    expect(losing(sampling(), { times: 99, by: killed, between: trainerKilled }).losses).toBe(9);
  });

  it("crashes count in full beside the kills", () => {
    const { state } = losing(sampling(), { times: 5, by: killed, between: trainerKilled });
    expect(isGivenUp(state)).toBe(false);
    expect(isGivenUp(losing(state, { times: 1, by: crashed }).state)).toBe(true);
    const two = losing(sampling(), { times: 2, by: crashed, between: trainerKilled }).state;
    expect(isGivenUp(losing(two, { times: 1, by: killed }).state)).toBe(true);
  });

  it("what was lost counts no more when it is over, and what is lost then counts in full", () => {
    const { state } = losing(sampling(), { times: 3, by: killed, between: trainerKilled });
    const later = { ...state, nowMs: state.nowMs + 600_001 };
    const once = losing(later, { times: 1, by: killed }).state;
    expect(once.groups[4]?.outside).toEqual({ 0: { count: 4, light: 3 } });
    expect(isGivenUp(once)).toBe(false);
    expect(isGivenUp(losing(once, { times: 1, by: killed }).state)).toBe(true);
  });

  it("is one for a new controller, too: its clock has nothing in common with the last one's", () => {
    const { state } = losing(sampling(), { times: 2, by: killed, between: trainerKilled });
    const rebased = rebaseTimes(state, 90_000_000, 0);
    expect(isGivenUp(losing({ ...rebased, nowMs: 90_000_000 }, { times: 1, by: killed }).state)).toBe(false);
  });
});

describe("what makes a storm", () => {
  it("is no loss of a holder over a suspect: another group that ends its holders is no excuse", () => {
    let state = dispatched(sampling(2));
    for (let n = 0; n < 3; n++) for (const index of [0, 1]) state = dispatched(killed(state, holderOf(state, index)));
    expect([isGivenUp(state, 0), isGivenUp(state, 1)]).toEqual([true, true]);
  });

  it("is no loss of a holder over held-out prompts that ended one before, and it is over others", () => {
    const items = [{ purpose: "eval" as const, chunk: 0, from: 0, count: 64 }];
    const over = (attempts: Record<string, number>) => {
      const evaluation = { version: 3, queue: [], settled: [], attempts, chunks: 1, prompts: 0, correct: 0 };
      const leases = { "1-1": { holder: "r0", items, dueAtMs: 9_000 } };
      return noteOutsideLoss({ ...sampling(), leases, evaluation }, "r0").outsideLosses ?? [];
    };
    expect([over({ 0: 1 }), over({ 0: 0 }), over({ 1: 1 })].map(({ length }) => length)).toEqual([0, 1, 1]);
  });

  it("is more than the group's own losses: one other is too few", () => {
    const once = trainerKilled(dispatched(sampling()));
    expect(losing(once, { times: 9, by: killed }).losses).toBe(3);
    expect(losing(trainerKilled(trainerKilled(once)), { times: 9, by: killed }).losses).toBeGreaterThan(3);
  });

  it("is remembered for ten minutes, and bounded", () => {
    let state = sampling();
    for (let n = 0; n < 100; n++) state = trainerKilled(state);
    expect(state.outsideLosses).toHaveLength(64);
    expect(trainerKilled({ ...state, nowMs: state.nowMs + 600_000 }).outsideLosses).toHaveLength(1);
    expect(ends(sampling(), "p1", "SIGSEGV").outsideLosses).toBeUndefined();
  });
});

describe("losses that are counted", () => {
  it("are those by a kill, or by a sign that names no cause", () => {
    const from = (by: string, isKill?: boolean) =>
      isFromOutside({ by, ...(isKill === undefined ? {} : { isKill }) } as never);
    expect([from("exit"), from("exit", false), from("exit", true), from("silence"), from("hang")]).toEqual([
      ...[false, false, true, true, false],
    ]);
  });

  it("are fewer by those that are explained, and none where none were counted", () => {
    const state = { ...sampling(), outsideLosses: [1, 2, 3] };
    expect(withoutOutsideLosses(state, [2]).outsideLosses).toEqual([1, 3]);
    expect(withoutOutsideLosses(state, [])).toBe(state);
    const none = sampling();
    expect(withoutOutsideLosses(none, [2])).toBe(none);
  });

  it("are a storm with as many others, or with all that are remembered but one", () => {
    const after = (recent: number, count: number) => {
      const state = { ...sampling(), outsideLosses: Array.from({ length: recent }, () => sampling().nowMs) };
      return withOutsideLoss(state, { count: count - 1, light: 0 }).light;
    };
    expect([after(4, 3), after(3, 3)]).toEqual([3, 0]);
    expect([after(64, 80), after(63, 80)]).toEqual([80, 0]);
    expect(withOutsideLoss(sampling(), undefined)).toEqual({ count: 1, light: 0 });
    expect([failuresOf(3), failuresOf(3, { count: 3, light: 3 })]).toEqual([3, 1]);
  });
});

it("held-out prompts whose holders are killed in a storm are not given up", () => {
  const chunk = { purpose: "eval" as const, chunk: 0, from: 0, count: 64 };
  const evaluation = { version: 3, queue: [chunk], settled: [], attempts: {}, chunks: 1, prompts: 0, correct: 0 };
  const lose = (between: (state: ControllerState) => ControllerState): ControllerState => {
    let state = dispatched({ ...sampling(), groups: {}, evaluation, evaluatedVersion: 3 });
    for (let n = 0; n < 3; n++) {
      const [lease] = Object.values(state.leases);
      state = dispatched(killed(between(state), lease?.holder ?? ""));
    }
    return state;
  };
  expect(lose(trainerKilled).evaluation).toMatchObject({ settled: [], attempts: { 0: 3 } });
  expect(lose((state) => state).evaluation?.settled ?? [0]).toEqual([0]);
});
