/** Going back to what is left when nobody holds the committed weights (semantics 6.7). */
import type { GroupReceipt } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import { unsettleCovered, unsettleTrained } from "../groups/ledger.ts";
import { groupsIn } from "../sizes.ts";
import { type ControllerState, holdsCurrent, membersOf, type StepGroups, withMember } from "../state.ts";
import { isBeginningLost, recoveryOf, withoutLater } from "../weights/memory.ts";
import type { KeptState } from "../weights/memory-state.ts";
import { heldOutUpTo } from "./best-checkpoint.ts";
import { purgedGroups } from "./fallback.ts";
import { withoutCopies } from "./quorum.ts";

/**
 * When no living policy replica holds the committed state, goes back to the newest that is in memory, or in a checkpoint: a new lineage begins
 * there, and the steps since are run again from their stored trajectories (semantics 6.7). While a checkpoint actor has the committed version
 * itself nothing is lost: whoever comes pulls it from there. Pure.
 */
export function planRestore(state: ControllerState): Change<ControllerState> | null {
  const { weights } = state;
  if (state.ending || state.step.state === "running") return null;
  if (!weights) return isBeginningLost(state) ? recovered(state, "what was kept in memory is lost, too") : null;
  const policies = membersOf(state, "policy");
  if (policies.some((member) => holdsCurrent(state, member) || member.order?.kind === "step.apply")) return null;
  if (!policies.some(({ order, health }) => order?.kind !== "replica.stop" && health !== "draining")) return null;
  return recovered(state, `no policy replica holds version ${weights.version}`);
}

function recovered(state: ControllerState, reason: string): Change<ControllerState> | null {
  const recovery = recoveryOf(state);
  if (recovery.kind === "wait") return null;
  const back = goBack(state, reason, recovery.kind === "memory" ? recovery.kept : null);
  // Where no step runs again, as after an orderly interruption, nobody needs to be called.
  return back.state.step.step === state.step.step ? { ...back, effects: [] } : back;
}

/**
 * Begins a new lineage at the newest checkpoint, or at the job's first weights when there is none (S24); with `kept`, at that. Who doubts the
 * weights themselves goes back to a checkpoint, because what is in memory is as new as they are. Pure.
 */
export function goBack(state: ControllerState, reason: string, kept: KeptState | null = null): Change<ControllerState> {
  const { saved } = state.checkpoints;
  const lineage = (state.weights?.lineage ?? state.restore.lineage) + 1;
  const { step, version } = kept ?? saved ?? { step: 0, version: 0 };
  const detail = `${reason}; going back to step ${step}${kept ? ", kept in memory," : ""} in lineage ${lineage}`;
  return {
    state: {
      ...rollBack(state, { step, version }),
      weights: null,
      restore: { lineage, version, source: sourceOf(state, kept) },
    },
    effects: [announce("alarm.raised", { alarm: "rollback", detail })],
  };
}

function sourceOf(
  { plan, checkpoints, fallback }: ControllerState,
  kept: KeptState | null,
): ControllerState["restore"]["source"] {
  if (kept) return { kind: "memory", ...kept };
  const { saved } = checkpoints;
  if (!saved) return plan.weights;
  const copies = [saved, ...fallback.older].filter(({ path }) => path === saved.path).slice(0, 64);
  const known = copies.flatMap(({ manifestDigest }) => manifestDigest ?? []);
  const manifestDigests = known.length === copies.length ? [...new Set(known)] : [];
  return { kind: "checkpoint", path: saved.path, ...(manifestDigests.length > 0 ? { manifestDigests } : {}) };
}

/** Orders about the lost lineage are void: whoever still works on one gets a new order, which replaces it. */
function withoutOrders(state: ControllerState): ControllerState {
  const bound = Object.values(state.members).filter(
    ({ order }) => order !== null && order.kind !== "replica.stop" && order.kind !== "node.assign",
  );
  return bound.reduce((next, { id }) => withMember(next, id, { order: null, retryAtMs: state.nowMs }), state);
}

/**
 * Steps after `step` become pending again. Those that no checkpoint covered are sampled already: their receipts wait in the tables. Those that
 * one covered, which is of no use now, are sampled again. Versions that are left behind count as not evaluated: the new line has other ones.
 */
function rollBack(before: ControllerState, { step, version }: Pick<KeptState, "step" | "version">): ControllerState {
  const state = withoutLater(withoutOrders(before), step);
  const again = Object.entries(state.history).filter(([key]) => Number(key) > step);
  const purged = Object.entries(state.fallback.covered).filter(([key]) => Number(key) > step);
  const groups = [
    ...purged.map(([key, covered]) => [key, purgedGroups(groupsIn(state, Number(key)), covered)] as const),
    ...again.map(([key, receipts]) => [key, sampledGroups(groupsIn(state, Number(key)), receipts)] as const),
  ];
  const ledger = purged.reduce((counts, [, covered]) => unsettleCovered(counts, covered), state.ledger);
  const upTo = <V>(table: Readonly<Record<string, V>>): Record<string, V> =>
    Object.fromEntries(Object.entries(table).filter(([key]) => Number(key) <= step));
  return {
    ...state,
    groups: { ...state.groups, ...Object.fromEntries(groups) },
    history: upTo(state.history),
    fallback: { ...state.fallback, covered: upTo(state.fallback.covered) },
    ledger: again.reduce((counts, [, receipts]) => unsettleTrained(counts, receipts), ledger),
    step: { ...state.step, step: step + 1, attempt: 1, failures: 0, state: "sampling", votes: {} },
    mesh: { ...state.mesh, state: "broken", dueAtMs: state.nowMs },
    evaluation: null,
    evaluatedVersion: Math.min(state.evaluatedVersion, version),
    ...(state.heldOut ? { heldOut: heldOutUpTo(state.heldOut, version) } : {}),
    checkpoints: withoutCopies(state.checkpoints),
  };
}

/** Groups of a step that was run before: what has no receipt was given up then, and stays so. */
function sampledGroups(size: number, receipts: readonly GroupReceipt[]): StepGroups {
  const byIndex = Object.fromEntries(receipts.map((receipt) => [receipt.index, receipt]));
  const indices = Array.from({ length: size }, (_, index) => index);
  return { queue: [], receipts: byIndex, quarantined: indices.filter((index) => !byIndex[index]) };
}
