import { type FailurePolicy, failureDefaults } from "@muster/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyReturned } from "../src/controller/groups/apply-groups.ts";
import { dispatchGroups } from "../src/controller/groups/dispatch-groups.ts";
import { finishItems, releaseHolder } from "../src/controller/groups/leases.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { applyVerdict } from "../src/controller/members/apply-verdict.ts";
import { type ControllerState, withMember, without } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, linesOf, memberOf, planWith, receiptOf, reportFrom, working } from "./states.ts";

const held = { lineage: 0, version: 3 };

interface Setting {
  readonly groups?: number;
  readonly rollouts?: readonly string[];
  readonly chunkGroups?: number;
  readonly failure?: Partial<FailurePolicy>;
}

/** A job that samples step 4. */
function sampling({
  groups = 8,
  rollouts = ["r0", "r1"],
  chunkGroups = 2,
  failure = {},
}: Setting = {}): ControllerState {
  const base = planWith();
  const limits = { ...base.limits, chunkGroups, leaseGroupsMax: 8, leasesPerRollout: 2 };
  const rules = { ...failureDefaults, abortShareMax: 1, sameErrorMax: 0, ...failure };
  const plan = planWith({ limits, failure: rules, groupsPerStep: groups, groupSize: 2 });
  const ledger = { admitted: groups * 2, trained: 0, aborted: 0, quarantined: 0 };
  return working({ plan, members: ["p0", ...rollouts], patch: { groups: { 4: groupsOf(4, 0, groups) }, ledger } });
}

const dispatched = (state: ControllerState): ControllerState => dispatchGroups(state)?.state ?? state;
const leasesOf = (state: ControllerState) =>
  Object.values(state.leases).map(({ holder, items }) => ({
    holder,
    indices: items.map((item) => (item.purpose === "train" ? item.index : -1)),
    isSolo: items.some((item) => item.purpose === "train" && item.attempt > 0),
  }));

/** The holder dies, and a new life of it joins. */
function died(state: ControllerState, holder: string): ControllerState {
  const released = releaseHolder(state, { holder, reason: `${holder} died`, failure: "engine_crash" });
  const members = { ...without(released.state.members, holder), [holder]: memberOf(holder, 99, { held }) };
  return { ...released.state, members };
}

/** The holder hangs until it is evicted, and a new life of it joins. */
function hung(state: ControllerState, holder: string): ControllerState {
  const { incarnation } = memberOf(holder, 99);
  const known = withMember(state, holder, { incarnation });
  const verdict = {
    type: "verdict.hung",
    id: holder,
    incarnation,
    atMs: state.nowMs,
    kind: "hang",
    silentMs: 0,
  } as const;
  const { state: next } = applyVerdict(known, { ...verdict, evidence: "it does not move" });
  return { ...next, members: { ...without(next.members, holder), [holder]: memberOf(holder, 99, { held }) } };
}

describe("the groups of a holder that died", () => {
  it("are suspects only as far as it may have begun them: two chunks of what it had not reported", () => {
    const state = dispatched(sampling({ groups: 12, rollouts: ["r0"] }));
    const items = leasesOf(state).flatMap(({ indices }) => indices);
    const queue = died(state, "r0").groups[4]?.queue ?? [];
    expect(
      queue
        .filter(({ attempt }) => attempt === 1)
        .map(({ index }) => index)
        .sort(),
    ).toEqual(items.slice(0, 4).sort());
    expect(queue).toHaveLength(12);
    expect(queue.filter(({ last }) => last === "r0")).toHaveLength(items.length);
  });

  it("are none to blame when it left with a goodbye", () => {
    const state = dispatched(sampling());
    const left = releaseHolder(state, { holder: "r0", reason: "r0 left", failure: null }).state;
    expect(left.groups[4]?.queue.every(({ attempt }) => attempt === 0)).toBe(true);
  });
});

describe("a suspect", () => {
  it("is leased alone, to a replica that holds nothing else and gets nothing else meanwhile", () => {
    const state = dispatched(died(dispatched(sampling()), "r0"));
    for (const { holder, indices, isSolo } of leasesOf(state)) {
      if (!isSolo) continue;
      expect(indices).toHaveLength(1);
      expect(leasesOf(state).filter((lease) => lease.holder === holder)).toHaveLength(1);
    }
    expect(leasesOf(dispatched(state))).toEqual(leasesOf(state));
  });

  it("keeps its holder from any other lease, however much waits and however many leases it may have", () => {
    const solo = {
      holder: "r0",
      items: [{ purpose: "train" as const, step: 4, index: 0, attempt: 1 }],
      dueAtMs: 9_000,
    };
    const groups = { 4: { ...groupsOf(4, 0), queue: groupsOf(4, 0).queue.slice(1) } };
    const state = { ...sampling(), groups, leases: { "0-1": solo } };
    const ofFirst = (from: ControllerState) => leasesOf(dispatched(from)).filter(({ holder }) => holder === "r0");
    expect(ofFirst(state)).toHaveLength(1);
    const innocent = { ...solo, items: solo.items.map((item) => ({ ...item, attempt: 0 })) };
    expect(ofFirst({ ...state, leases: { "0-1": innocent } })).toHaveLength(2);
  });

  it("goes to another replica than the last, or waits for one", () => {
    const suspect = { index: 0, attempt: 1, last: "r0" };
    const only = { queue: [suspect], receipts: {}, quarantined: [] };
    const state = { ...sampling(), groups: { 4: only } };
    expect(leasesOf(dispatched(state))).toMatchObject([{ holder: "r1" }]);
    const busy = { "1-1": { holder: "r1", items: [], dueAtMs: 9_000 } };
    expect(dispatchGroups({ ...state, leases: busy })).toBeNull();
  });

  it("goes back to the same replica when there is no other", () => {
    const only = { queue: [{ index: 0, attempt: 1, last: "r0" }], receipts: {}, quarantined: [] };
    const state = { ...sampling({ rollouts: ["r0"] }), groups: { 4: only } };
    expect(leasesOf(dispatched(state))).toMatchObject([{ holder: "r0", isSolo: true }]);
    const two = { ...sampling(), groups: { 4: only } };
    expect(leasesOf(dispatched(withMember(two, "r1", { health: "suspect" })))).toMatchObject([{ holder: "r0" }]);
  });

  it("waits out the pause of its rule", () => {
    const engineCrash = { action: "quarantine", attempts: 3, backoffMs: 500 } as const;
    const state = died(dispatched(sampling({ groups: 2, rollouts: ["r0"], failure: { engineCrash } })), "r0");
    expect(state.groups[4]?.queue.every(({ dueAtMs }) => dueAtMs === state.nowMs + 500)).toBe(true);
    expect(leasesOf(dispatched(state)).some(({ isSolo }) => isSolo)).toBe(false);
    expect(leasesOf(dispatched({ ...state, nowMs: state.nowMs + 500 })).some(({ isSolo }) => isSolo)).toBe(true);
  });
});

describe("a poison prompt", () => {
  /**
   * Lets a holder of the poison end as soon as it may have begun it, and finish a chunk otherwise, until nothing is left.
   * @returns How many ended, and the end.
   */
  function play(
    poison: number,
    setting: Setting,
    end = died,
  ): { readonly deaths: number; readonly state: ControllerState } {
    const chunk = setting.chunkGroups ?? 2;
    let state = dispatched(sampling(setting));
    let deaths = 0;
    for (let round = 0; round < 200 && Object.keys(state.leases).length > 0; round++) {
      const holders = leasesOf(state).filter(({ indices }) => indices.includes(poison));
      expect(holders.length, "replicas that it can end at once").toBeLessThanOrEqual(1);
      const [[leaseId, lease] = ["", undefined]] = Object.entries(state.leases);
      const begun = (lease?.items ?? []).slice(0, chunk).map((item) => (item.purpose === "train" ? item.index : -1));
      if (!lease) break;
      if (begun.includes(poison)) {
        deaths += 1;
        state = end(state, lease.holder);
      } else state = finished(state, leaseId, begun);
      state = dispatched(state);
    }
    return { deaths, state };
  }

  function finished(state: ControllerState, leaseId: string, indices: readonly number[]): ControllerState {
    const groups = state.groups[4] ?? groupsOf(4, 0);
    const receipts = Object.fromEntries(indices.map((index) => [index, receiptOf(4, index)]));
    const next = { ...state, groups: { 4: { ...groups, receipts: { ...groups.receipts, ...receipts } } } };
    return finishItems(next, leaseId, (item) => item.purpose === "train" && indices.includes(item.index));
  }

  it.each([
    ["ends", died],
    ["hangs", hung],
  ])("%s three holders, one at a time, and is quarantined; everybody else is finished", (_, end) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 11 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 4 }),
        (poison, replicas, chunkGroups) => {
          const rollouts = Array.from({ length: replicas }, (_, i) => `r${i}`);
          const { deaths, state } = play(poison, { groups: 12, rollouts, chunkGroups }, end);
          expect(state.groups[4]?.quarantined).toEqual([poison]);
          expect(Object.keys(state.groups[4]?.receipts ?? {})).toHaveLength(11);
          expect(deaths).toBe(3);
          expect(imbalanceOf(ledgerOf(state))).toBe(0);
        },
      ),
    );
  });

  it("is told with its last holder and reason, and counts as given up", () => {
    const base = sampling({ groups: 1 });
    const lease = {
      holder: "r0",
      items: [{ purpose: "train" as const, step: 4, index: 0, attempt: 2 }],
      dueAtMs: 9_000,
    };
    const state = { ...base, groups: { 4: { queue: [], receipts: {}, quarantined: [] } }, leases: { "1-1": lease } };
    const { effects, state: next } = releaseHolder(state, { holder: "r0", reason: "r0 died", failure: "engine_crash" });
    expect(bodiesOf(effects, "groups.quarantined")).toEqual([
      { item: "4.0", attempts: 3, holder: "r0", failure: "engine_crash", reason: "r0 died" },
    ]);
    expect(next.givenUp.causes).toMatchObject([
      { name: "Quarantined", failure: "engine_crash", count: 2, sample: "4.0/0" },
    ]);
  });
});

describe("an engine that fails over a group", () => {
  const returnedWith = (failure: "engine_crash" | "oom" | undefined, setting: Setting = {}) => {
    const state = dispatched(sampling({ groups: 2, rollouts: ["r0"], ...setting }));
    const [[leaseId, { items }]] = Object.entries(state.leases) as [[string, ControllerState["leases"][string]]];
    const body = { leaseId, items: [...items], reason: "device lost", ...(failure ? { failure } : {}) };
    return applyReturned(state, reportFrom(state, "r0", { kind: "groups.returned", body }));
  };

  it("counts as an attempt, as a death does", () => {
    const { state, effects } = returnedWith("engine_crash");
    expect(state.groups[4]?.queue.some(({ attempt, last }) => attempt === 1 && last === "r0")).toBe(true);
    expect(linesOf(effects)).toEqual(["! groups.released"]);
  });

  it("is no news, and counts for nothing, when the work is handed back untouched", () => {
    const { state, effects } = returnedWith(undefined);
    expect(state.groups[4]?.queue.every(({ attempt }) => attempt === 0)).toBe(true);
    expect(effects).toEqual([]);
  });

  it("may get a new life by its rule, and the group stays", () => {
    const engineCrash = { action: "restart", attempts: 1, backoffMs: 0 } as const;
    const { state, effects } = returnedWith("engine_crash", { failure: { engineCrash } });
    expect(linesOf(effects)).toContain("r0 replica.fenced");
    expect(state.members.r0).toBeUndefined();
    expect(state.groups[4]?.queue.some(({ attempt }) => attempt === 1)).toBe(true);
  });

  it("may end the job by its rule", () => {
    const oom = { action: "abort", attempts: 1, backoffMs: 0 } as const;
    expect(returnedWith("oom", { failure: { oom } }).state.ending?.reason).toContain("device lost");
  });
});
