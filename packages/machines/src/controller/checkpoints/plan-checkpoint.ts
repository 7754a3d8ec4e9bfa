/** When a checkpoint is due, and from whom checkpoint actors take it. */

import type { VersionKey } from "../../version-key.ts";
import { type Change, command } from "../events.ts";
import { ledgerOf } from "../groups/ledger.ts";
import { isNearlyFull } from "../groups/stream-room.ts";
import { saveOf } from "../order.ts";
import { withVersionOrder } from "../orders.ts";
import { sizesUpTo, stepsOf } from "../sizes.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf, withMember } from "../state.ts";
import { keepersOf } from "../weights/memory.ts";
import { trainersServing, wholeHolders } from "../weights/parts.ts";
import { isFree } from "../weights/plan-weights.ts";
import { rotated } from "../weights/weight-sources.ts";
import { sparedOf } from "./best-checkpoint.ts";
import { pinsOf } from "./fallback.ts";
import { hasCopy, isEnough, isQuorumThere } from "./quorum.ts";
import { isSetWhole, planBegunSet, planNewSet } from "./shards.ts";
import { supersededOf, withSuperseded } from "./superseded.ts";
import { splitHistory, watermarkAfter } from "./watermark.ts";

/** Marks the committed version as wanted when a checkpoint is due, and orders it from the checkpoint actors. Pure. */
export function planCheckpoint(state: ControllerState): Change<ControllerState> | null {
  const { plan, weights, checkpoints, step } = state;
  if (!weights || plan.checkpointReplicas === 0) return null;
  const begun = planBegunSet(state, orderable(state));
  if (begun) return begun;
  const committed = step.step - 1;
  if (isSaveDue(state)) {
    const dueAtMs = state.nowMs + plan.timing.checkpointMs;
    return { state: { ...state, checkpoints: { ...checkpoints, wantedStep: committed, dueAtMs } }, effects: [] };
  }
  return checkpoints.wantedStep === committed ? orderCheckpoint(state, committed) : null;
}

/** True when the committed version should be made durable, and is not marked as wanted yet. Pure. */
export function isSaveDue(state: ControllerState): boolean {
  const { plan, checkpoints, step } = state;
  const committed = step.step - 1;
  const isOpen = committed > (checkpoints.saved?.step ?? 0) && committed > (checkpoints.wantedStep ?? 0);
  return plan.checkpointReplicas > 0 && isOpen && (isCheckpointDue(state, committed) || isOvertaken(state));
}

/**
 * A checkpoint is wanted, the job has gone on, and nobody writes it: what could not be had of that version is had of this one. While too few hosts
 * could have it, another one at every step would help nobody.
 */
function isOvertaken(state: ControllerState): boolean {
  const { wantedStep } = state.checkpoints;
  if (wantedStep === null || !isQuorumThere(state, state.step.step - 1)) return false;
  const isWritten = membersOf(state, "checkpoint").some(({ order }) => order?.kind === "checkpoint.save");
  return !isWritten && !isSetWhole(state);
}

/** Checkpoint actors that can be told to write now. */
function orderable(state: ControllerState): readonly Member[] {
  return membersOf(state, "checkpoint").filter((member) => isFreeSaver(state, member));
}

/** True when a checkpoint actor can be told to write now. Pure. */
export function isFreeSaver(state: ControllerState, member: Member): boolean {
  return isFree(state, member) && member.health === "healthy";
}

function isCheckpointDue(state: ControllerState, committed: number): boolean {
  const { checkpointEverySteps } = state.plan;
  // A groups stream that is full holds results back until a checkpoint lets the controller empty it.
  if (committed === stepsOf(state) || isLastLeaving(state) || state.heldBack || isNearlyFull(state)) return true;
  if (state.ending) return state.step.state === "sampling";
  // No step is the zeroth one of none: every 0 steps is never.
  return committed % checkpointEverySteps === 0;
}

function orderCheckpoint(state: ControllerState, step: number): Change<ControllerState> | null {
  const { weights, plan } = state;
  const { checkpointShards: of } = plan;
  const holders = [...trainersServing(state), ...keepersOf(state, weights)];
  const savers = orderable(state).filter((member) => !hasCopy(state, member, step));
  if (!weights || holders.length === 0 || savers.length === 0) return null;
  const { pending: _, ...ledger } = ledgerOf(state);
  const sections = [...weights.sections];
  const groupsWatermark = watermarkAfter(state, splitHistory(state, step));
  const { lineage, version } = weights;
  if (of !== undefined) {
    const told = { sections, holders: wholeHolders(holders), groupsWatermark, ledger };
    return planNewSet(state, savers, { step, lineage, version, of, told });
  }
  if (isOutOfStep(state, weights, savers)) return null;
  const checkpoints = withSuperseded(state, version);
  const body = {
    step,
    lineage,
    version,
    ...{ sections, groupsWatermark, ledger },
    ...pinsOf(state),
    ...supersededOf(checkpoints),
    ...sizesUpTo(state, step),
    ...sparedOf(state),
  };
  const order = { kind: "checkpoint.save", lineage, version, withinMs: plan.timing.checkpointMs } as const;
  return {
    state: savers.reduce((next, member) => withMember(next, member.id, withVersionOrder(state, member, order)), {
      ...state,
      checkpoints,
    }),
    effects: savers.map((member) => {
      const others = rotated(holders, member);
      // Who is the only one that holds it has it from itself.
      const sources = others.length > 0 ? others : holders;
      return command(member, "checkpoint.save", { ...body, holders: wholeHolders(sources) });
    }),
  };
}

/**
 * True while whoever is free is to wait for others that still write an older version: with their hosts, the next one can count. Else two that are never free
 * at the same moment would each write the versions that the other one misses, and none would ever count. Nobody waits when training stands still or ends:
 * then each writes the same version when it can.
 */
function isOutOfStep(state: ControllerState, version: VersionKey, free: readonly Member[]): boolean {
  if (state.step.step > stepsOf(state) || state.ending || state.heldBack || isLastLeaving(state)) return false;
  const writing = membersOf(state, "checkpoint").filter(({ order }) => order?.kind === "checkpoint.save");
  const same = writing.filter(({ order }) => saveOf(order, version));
  return same.length < writing.length && !isEnough(state, state.step.step - 1, [...free, ...same]);
}

/**
 * True when the only policy replicas that hold the state want to leave: it must be durable first, so training waits. Somebody who stays
 * and is making the commit live is about to hold it. Pure.
 */
export function isLastLeaving(state: ControllerState): boolean {
  const policies = membersOf(state, "policy");
  const holders = policies.filter((member) => holdsCurrent(state, member));
  const isNear = policies.some(({ health, order }) => health !== "draining" && order?.kind === "step.apply");
  const areLeaving = holders.length > 0 && holders.every(({ health }) => health === "draining");
  return areLeaving && !isNear && state.step.state === "sampling";
}
