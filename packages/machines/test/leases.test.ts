import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  holdersOf,
  leasesOf,
  loadOf,
  withLease,
  withLeases,
  withoutLease,
} from "../src/controller/groups/lease-table.ts";
import { finishItems, keyOf, releaseHolder, releaseLease, requeue } from "../src/controller/groups/leases.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, working } from "./states.ts";

const train = (index: number, attempt = 0) => ({ purpose: "train" as const, step: 4, index, attempt });
const failed = { holder: "r0", reason: "r0 died", failure: "engine_crash" as const };
const untouched = { holder: "", reason: "leaving", failure: null };
const evaluate = (chunk: number) => ({ purpose: "eval" as const, chunk, from: chunk * 64, count: 64 });

/** Groups 0 and 1 are leased to r0, 2 waits, 3 is finished. */
function leased(): ControllerState {
  const all = groupsOf(4, 4);
  const groups = { queue: [{ index: 2, attempt: 0 }], receipts: { 3: all.receipts[3] as never }, quarantined: [] };
  const leases = { "1-1": { holder: "r0", items: [train(0), train(1)], dueAtMs: 5_000 } };
  const ledger = { admitted: 8, trained: 0, aborted: 0, quarantined: 0 };
  return working({ patch: { groups: { 4: groups }, leases, ledger } });
}

it("another attempt at a group is other work, and so is another chunk", () => {
  expect(keyOf(train(1))).toBe(keyOf({ ...train(1) }));
  expect(new Set([train(1), train(1, 1), train(2), evaluate(1), evaluate(2)].map(keyOf)).size).toBe(5);
});

describe("who holds which leases", () => {
  const lease = fc.record({ holder: fc.constantFrom("r0", "r1", "r2"), dueAtMs: fc.nat(9) });
  const act = fc.record({ id: fc.nat(9), lease, does: fc.constantFrom("put", "remove", "ask") });

  it("is what the table says, whatever was made, changed, moved to another holder and removed", () => {
    fc.assert(
      fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
        let leases: ControllerState["leases"] = {};
        for (const { id, lease, does } of acts) {
          if (does === "put") leases = withLease(leases, `1-${id}`, { ...lease, items: [] });
          if (does === "remove") leases = withoutLease(leases, `1-${id}`);
          // The index of a table that nobody asked for follows from no other.
          if (does === "ask") leases = { ...leases };
          const entries = Object.entries(leases);
          for (const holder of ["r0", "r1", "r2"])
            expect(new Map(leasesOf({ leases }, holder))).toEqual(
              new Map(entries.filter(([, own]) => own.holder === holder)),
            );
          expect(new Set(Object.keys(holdersOf(leases)))).toEqual(new Set(entries.map(([, { holder }]) => holder)));
        }
      }),
    );
  });

  it("is the same for many new ones at once as one by one", () => {
    const made = Array.from(
      { length: 70 },
      (_, n) => [`1-${n}`, { holder: `r${n % 3}`, items: [], dueAtMs: n }] as const,
    );
    for (const count of [1, 63, 64, 70]) {
      const table = withLeases({ "0-1": { holder: "r0", items: [], dueAtMs: 0 } }, made.slice(0, count));
      expect(Object.keys(table)).toEqual(["0-1", ...made.slice(0, count).map(([id]) => id)]);
      expect(leasesOf({ leases: table }, "r0")).toHaveLength(1 + Math.ceil(count / 3));
    }
  });

  it("counts a large lease of training as the ones that it stands for, and an evaluation as one", () => {
    const own = (...items: readonly object[]) => ["1-1", { holder: "r0", items: items as never, dueAtMs: 0 }] as const;
    expect(loadOf([own(train(0), train(1))], 2)).toBe(1);
    expect(loadOf([own(train(0), train(1), train(2)), own(train(3))], 2)).toBe(3);
    expect(loadOf([own(evaluate(0), evaluate(1), evaluate(2))], 2)).toBe(1);
    expect(loadOf([own()], 0)).toBe(1);
  });
});

describe("a lease that is released", () => {
  it("gives its groups back in front of the queue, as one more attempt", () => {
    const { state, effects } = releaseLease(leased(), "1-1", { reason: "r0 hangs", failure: "engine_crash" });
    expect(state.groups[4]?.queue).toEqual([
      { index: 1, attempt: 1, last: "r0" },
      { index: 0, attempt: 1, last: "r0" },
      { index: 2, attempt: 0 },
    ]);
    expect(state.leases).toEqual({});
    expect(bodiesOf(effects, "groups.released")).toEqual([
      { holder: "r0", count: 2, reason: "r0 hangs", items: ["4.0", "4.1"], tokensWasted: 0 },
    ]);
  });

  it("is released only once", () => {
    const { state } = releaseLease(leased(), "1-1", { reason: "r0 hangs", failure: "engine_crash" });
    expect(releaseLease(state, "1-1", { reason: "again", failure: null })).toEqual({ state, effects: [] });
  });

  it("takes all leases of its holder with it, and no others", () => {
    const state = leased();
    const more = { ...state.leases, "1-2": { holder: "r1", items: [train(2)], dueAtMs: 1 } };
    const released = releaseHolder({ ...state, leases: more }, { holder: "r0", reason: "r0 left", failure: null });
    expect(Object.keys(released.state.leases)).toEqual(["1-2"]);
    expect(releaseHolder(state, { holder: "r9", reason: "nobody", failure: null })).toEqual({ state, effects: [] });
  });
});

describe("an item that comes back", () => {
  it("is not queued when it is finished, waits already, or its step is over", () => {
    const state = leased();
    expect(requeue(state, [train(3), train(2), { ...train(0), step: 3 }], failed).state).toEqual(state);
  });

  it("keeps its attempt when it was handed back untouched", () => {
    expect(requeue(leased(), [train(0, 2)], untouched).state.groups[4]?.queue[0]).toEqual({ index: 0, attempt: 2 });
  });

  it("waits for as long as its rule says where that is some time, and for none where it is none", () => {
    const base = leased();
    const engineCrash = { action: "quarantine", attempts: 3, backoffMs: 1 } as const;
    const plan = { ...base.plan, failure: { ...base.plan.failure, engineCrash } };
    const [slow] = requeue({ ...base, plan }, [train(0)], failed).state.groups[4]?.queue ?? [];
    expect(slow?.dueAtMs).toBeGreaterThan(base.nowMs);
    expect(requeue(base, [train(0)], failed).state.groups[4]?.queue[0]).not.toHaveProperty("dueAtMs");
    expect(requeue({ ...base, plan }, [train(0)], untouched).state.groups[4]?.queue[0]).not.toHaveProperty("dueAtMs");
  });

  it("is remembered with its last eight holders, each once, so that the first result counts whoever it is from", () => {
    const holders = ["r0", "r1", "r2", "r3", "r0", "r4", "r5", "r6", "r7", "r8"];
    let state = leased();
    for (const holder of holders) {
      state = { ...state, groups: { 4: { ...groupsOf(4, 0), ...state.groups[4], queue: [] } } };
      state = requeue(state, [train(0)], { ...untouched, holder }).state;
    }
    expect(state.groups[4]?.former?.[0]).toEqual(["r2", "r3", "r0", "r4", "r5", "r6", "r7", "r8"]);
  });

  it("has lost no holder by something from outside unless that is said, and it failed", () => {
    const lost = (why: object) => requeue(leased(), [train(0)], { ...failed, ...why }).state.groups[4]?.outside;
    expect([lost({}), lost({ isOutside: false }), lost({ isOutside: true, failure: null })]).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    expect(lost({ isOutside: true })).toMatchObject({ 0: { count: 1 } });
  });

  it("is quarantined with a cause of 2,000 characters at most, which names it first", () => {
    const { state } = requeue(leased(), [train(0, 2)], { ...failed, reason: "x".repeat(3_000) });
    const [cause] = state.givenUp.causes;
    expect(cause?.message).toHaveLength(2_000);
    expect(cause).toMatchObject({ message: expect.stringMatching(/^group 4\.0 after 3 failures/), count: 2 });
  });

  it("is quarantined after its last attempt, and the ledger still balances", () => {
    const before = leased();
    const state = requeue({ ...before, leases: {} }, [train(0, 2), train(1, 1)], failed).state;
    expect(state.groups[4]?.quarantined).toEqual([0]);
    expect(state.groups[4]?.queue[0]).toEqual({ index: 1, attempt: 2, last: "r0" });
    expect(state.ledger.quarantined).toBe(state.plan.groupSize);
    expect(imbalanceOf(ledgerOf(state))).toBe(0);
  });

  it("that was quarantined stays so, and is counted once", () => {
    const once = requeue(leased(), [train(0, 2)], failed).state;
    expect(requeue(once, [train(0, 2), train(0, 0)], failed).state).toEqual(once);
  });

  it("of an evaluation waits again unless its chunk is settled or waits already", () => {
    const evaluation = {
      version: 3,
      queue: [evaluate(1)],
      settled: [0],
      attempts: {},
      chunks: 3,
      prompts: 64,
      correct: 1,
    };
    const state = working({ patch: { evaluation } });
    const again = requeue(state, [evaluate(0), evaluate(1), evaluate(2)], failed).state;
    expect(again.evaluation?.queue).toEqual([evaluate(2), evaluate(1)]);
    expect(again.evaluation?.attempts).toEqual({ 2: 1 });
    expect(requeue(state, [evaluate(2)], untouched).state.evaluation?.attempts).toEqual({ 2: 0 });
    expect(requeue(working(), [evaluate(0)], failed).state.evaluation).toBeNull();
  });

  it("of an evaluation does not wait again while another lease of it has that chunk: what comes back is of an earlier evaluation", () => {
    const evaluation = {
      ...{ version: 3, queue: [], settled: [], attempts: { 0: 1 }, chunks: 1, prompts: 0, correct: 0 },
      leasesBefore: 2,
    };
    const of = (leaseId: string) => {
      const leases = { [leaseId]: { holder: "r1", items: [evaluate(0)], dueAtMs: 9_000 } };
      const state = working({ patch: { evaluation, leases } });
      return requeue(state, [evaluate(0)], failed).state.evaluation;
    };
    expect(of("1-3")).toEqual(evaluation);
    expect(of("1-2")).toMatchObject({ queue: [evaluate(0)], attempts: { 0: 2 } });
  });

  it("of an evaluation waits again while a lease has other chunks of it", () => {
    const evaluation = {
      ...{ version: 3, queue: [], settled: [], attempts: {}, chunks: 2, prompts: 0, correct: 0 },
      leasesBefore: 2,
    };
    const leases = { "1-3": { holder: "r1", items: [evaluate(1), train(0)], dueAtMs: 9_000 } };
    const state = requeue(working({ patch: { evaluation, leases } }), [evaluate(0)], failed).state;
    expect(state.evaluation?.queue).toEqual([evaluate(0)]);
  });

  it("of an evaluation is given up after its last attempt, so that held-out prompts cannot stop the job", () => {
    const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 1, prompts: 0, correct: 0 };
    let state = working({ patch: { evaluation } });
    const { attempts } = state.plan.failure.engineCrash;
    for (let failure = 1; failure < attempts; failure++) {
      state = requeue(state, [evaluate(0)], failed).state;
      expect(state.evaluation?.queue).toEqual([evaluate(0)]);
      state = { ...state, evaluation: { ...evaluation, ...state.evaluation, queue: [] } };
    }
    expect(requeue(state, [evaluate(0)], failed).state.evaluation).toMatchObject({
      queue: [],
      settled: [0],
      prompts: 0,
    });
  });
});

describe("items that are finished", () => {
  it("leave their lease, which ends with the last of them", () => {
    const one = finishItems(leased(), "1-1", (item) => item.purpose === "train" && item.index === 0);
    expect(one.leases["1-1"]?.items).toEqual([train(1)]);
    expect(finishItems(one, "1-1", () => true).leases).toEqual({});
    expect(finishItems(one, "9-9", () => true)).toBe(one);
  });
});
