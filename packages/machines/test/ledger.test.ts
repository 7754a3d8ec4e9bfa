import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  imbalanceOf,
  isSettled,
  ledgerOf,
  receiptsOf,
  settleTrained,
  unsettleTrained,
} from "../src/controller/groups/ledger.ts";
import { groupsOf, planWith, receiptOf, working } from "./states.ts";

describe("the ledger", () => {
  it("derives what is pending from the tables, so that a lost group shows", () => {
    const state = working({ patch: { groups: { 4: groupsOf(4, 1), 5: groupsOf(5, 0) } } });
    const admitted = { ...state, ledger: { admitted: 16, trained: 0, aborted: 0, quarantined: 0 } };
    expect(ledgerOf(admitted)).toMatchObject({ pending: 16 });
    expect(imbalanceOf(ledgerOf(admitted))).toBe(0);
    expect(imbalanceOf(ledgerOf({ ...admitted, groups: { 4: groupsOf(4, 1) } }))).toBe(8);
  });

  it("does not count a quarantined group as pending", () => {
    const groups = { ...groupsOf(4, 1), quarantined: [3] };
    expect(ledgerOf(working({ patch: { groups: { 4: groups } } })).pending).toBe(6);
  });

  it("takes back exactly what it settled", () => {
    const receipt = fc.record({ completed: fc.nat(9), aborted: fc.nat(9) });
    fc.assert(
      fc.property(fc.array(receipt), (parts) => {
        const receipts = parts.map((part, index) => receiptOf(4, index, part));
        const before = { admitted: 500, trained: 200, aborted: 9, quarantined: 1 };
        expect(unsettleTrained(settleTrained(before, receipts), receipts)).toEqual(before);
      }),
    );
  });

  it("gives receipts in order of their index, not of their arrival", () => {
    const receipts = { 10: receiptOf(4, 10), 2: receiptOf(4, 2), 9: receiptOf(4, 9) };
    const listed = receiptsOf({ queue: [], receipts, quarantined: [] });
    expect(listed.map(({ index }) => index)).toEqual([2, 9, 10]);
  });

  it("knows a step as settled when each group is finished or quarantined", () => {
    const { groupsPerStep } = planWith();
    expect(isSettled(groupsOf(4, 4), groupsPerStep)).toBe(true);
    expect(isSettled(groupsOf(4, 3), groupsPerStep)).toBe(false);
    expect(isSettled({ ...groupsOf(4, 3), queue: [], quarantined: [3] }, groupsPerStep)).toBe(true);
  });
});
