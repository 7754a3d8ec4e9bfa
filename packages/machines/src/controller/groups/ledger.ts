/** The ledger: `admitted = trained + aborted + quarantined + pending`, at every moment (semantics 6.6, S15). */
import type { GroupReceipt, Ledger } from "@muster/protocol";
import { sizeOf, valuesOf } from "../../table/table.ts";
import { groupsIn } from "../sizes.ts";
import type { ControllerState, CoveredStep, KeptReceipt, LedgerCounts, StepGroups } from "../state.ts";

/** Counts with what is pending, derived from the tables of groups and not from the other counts. Pure. */
export function ledgerOf(state: ControllerState): Ledger {
  const open = Object.entries(state.groups).reduce(
    (sum, [key, groups]) => sum + groupsIn(state, Number(key)) - groups.quarantined.length,
    0,
  );
  return { ...state.ledger, pending: open * state.plan.groupSize };
}

/** Trajectories that the ledger cannot account for; 0 unless there is a bug. Pure. */
export function imbalanceOf(ledger: Ledger): number {
  return ledger.admitted - ledger.trained - ledger.aborted - ledger.quarantined - ledger.pending;
}

/** The counts after a batch was trained. Pure. */
export function settleTrained(counts: LedgerCounts, receipts: readonly GroupReceipt[]): LedgerCounts {
  const { completed, aborted } = countsOf(receipts);
  return { ...counts, trained: counts.trained + completed, aborted: counts.aborted + aborted };
}

/** The counts after a batch is to be trained again, in another lineage. Pure. */
export function unsettleTrained(counts: LedgerCounts, receipts: readonly GroupReceipt[]): LedgerCounts {
  const { completed, aborted } = countsOf(receipts);
  return { ...counts, trained: counts.trained - completed, aborted: counts.aborted - aborted };
}

/** The counts after a step whose trajectories are purged is to be sampled and trained again. Pure. */
export function unsettleCovered(counts: LedgerCounts, { completed, aborted }: CoveredStep): LedgerCounts {
  return { ...counts, trained: counts.trained - completed, aborted: counts.aborted - aborted };
}

/** The receipts of a step in order of group index. Pure. */
export function receiptsOf(groups: StepGroups): readonly KeptReceipt[] {
  return [...valuesOf(groups.receipts)].sort((a, b) => a.index - b.index);
}

/** True when every group of a step is settled: finished or quarantined. Pure. */
export function isSettled(groups: StepGroups, groupsPerStep: number): boolean {
  return sizeOf(groups.receipts) + groups.quarantined.length === groupsPerStep;
}

/** Results of groups that were trained, by count. */
export function countsOf(receipts: readonly GroupReceipt[]): { completed: number; aborted: number } {
  return {
    completed: receipts.reduce((sum, receipt) => sum + receipt.completed, 0),
    aborted: receipts.reduce((sum, receipt) => sum + receipt.aborted, 0),
  };
}
