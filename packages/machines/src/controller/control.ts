/**
 * The controller's mind: one input in, the next state and what must be done about it out. First the fact enters the tables, then the
 * planners look at the tables until none of them finds anything to do. Decisions therefore depend on state alone, never on the
 * order in which facts arrived.
 */
import { invariant } from "@muster/base";
import { applyElected } from "./apply-elected.ts";
import { applyDraining, applyExited, applyLeft, applyRegister, applyVerdict } from "./apply-membership.ts";
import {
  applyBuilt,
  applyCompleted,
  applyEvaluated,
  applyFailed,
  applyHeld,
  applyMeshFailed,
  applyReturned,
  applySaved,
  applySaveFailed,
  applyVoted,
} from "./apply-work.ts";
import { dispatchGroups, planAdmission, planEvaluation } from "./dispatch-groups.ts";
import { type Change, type ControllerEffect, type ControllerEvent, command } from "./events.ts";
import { planCeiling } from "./given-up.ts";
import { planOverdue } from "./orders.ts";
import { planCheckpoint, planEnd, planReleases, planRestore } from "./plan-end.ts";
import { planMesh } from "./plan-mesh.ts";
import { planStepOutcome, planStepRun } from "./plan-step.ts";
import { planInitialWeights, planPulls } from "./plan-weights.ts";
import type { ControllerState } from "./state.ts";

type Planner = (state: ControllerState) => Change<ControllerState> | null;

/** In this order: what ends something comes before what starts something. */
const planners: readonly Planner[] = [
  planOverdue,
  planCeiling,
  planStepOutcome,
  planRestore,
  planInitialWeights,
  planMesh,
  planPulls,
  planAdmission,
  planEvaluation,
  planStepRun,
  planCheckpoint,
  dispatchGroups,
  planReleases,
  planEnd,
];

/** More rounds than any state needs; a planner that never rests is a bug. */
const roundsMax = 64;

/** One step of the controller. A tick that changes nothing gives back the same state object. Pure. */
export function control(state: ControllerState, event: ControllerEvent): Change<ControllerState> {
  if (state.stopped) return { state, effects: [] };
  const clocked = { ...state, nowMs: Math.max(state.nowMs, event.atMs) };
  const applied = event.type === "controller.elected" ? applyElected(state, event) : apply(clocked, event);
  const planned = reconcile(applied.state);
  const effects = [...applied.effects, ...planned.effects];
  const isIdleTick = event.type === "controller.tick" && effects.length === 0 && planned.state === clocked;
  return isIdleTick ? { state, effects: [] } : { state: planned.state, effects };
}

function reconcile(state: ControllerState): Change<ControllerState> {
  const effects: ControllerEffect[] = [];
  let current = state;
  for (let round = 0; round < roundsMax; round++) {
    const before = current;
    for (const plan of planners) {
      const change = plan(current);
      if (!change) continue;
      current = change.state;
      effects.push(...change.effects);
    }
    if (current === before) return { state: current, effects };
  }
  invariant(false, "the planners do not come to rest");
}

/** Facts about replicas count only from living members; anyone else is told to come back as a new incarnation. */
function apply(
  state: ControllerState,
  event: Exclude<ControllerEvent, { type: "controller.elected" }>,
): Change<ControllerState> {
  switch (event.type) {
    case "controller.tick":
      return { state, effects: [] };
    case "verdict.suspect":
    case "verdict.recover":
    case "verdict.dead":
      return applyVerdict(state, event);
    case "replica.register":
      return applyRegister(state, event);
    case "replica.left":
      return applyLeft(state, event);
    case "process.exited":
      return event.role === "operator" ? applyExited(state, event) : { state, effects: [] };
    case "replica.drain":
      return event.role === "operator" ? applyDraining(state, event.body.id) : { state, effects: [] };
    case "job.stop":
      return event.role === "operator" ? applyStop(state, event.body.reason) : { state, effects: [] };
    default:
      return applyReport(state, event);
  }
}

type MemberReport = Exclude<
  ControllerEvent,
  {
    type:
      | `controller.${string}`
      | `verdict.${string}`
      | "replica.register"
      | "replica.left"
      | "process.exited"
      | "replica.drain"
      | "job.stop";
  }
>;

function applyReport(state: ControllerState, event: MemberReport): Change<ControllerState> {
  if (state.members[event.from]?.incarnation !== event.incarnation) {
    const reason = "this incarnation is not a member of the job";
    return {
      state,
      effects: [command({ id: event.from, incarnation: event.incarnation }, "replica.fenced", { reason })],
    };
  }
  switch (event.type) {
    case "replica.draining":
      return applyDraining(state, event.from);
    case "weights.meta":
      return { state: { ...state, tensorsDigest: event.body.digest }, effects: [] };
    case "weights.held":
      return applyHeld(state, event);
    case "weights.failed":
      return applyFailed(state, event);
    case "mesh.built":
      return applyBuilt(state, event);
    case "mesh.failed":
      return applyMeshFailed(state, event);
    case "groups.completed":
      return applyCompleted(state, event);
    case "groups.returned":
      return applyReturned(state, event);
    case "evals.completed":
      return applyEvaluated(state, event);
    case "step.voted":
      return applyVoted(state, event);
    case "checkpoint.saved":
      return applySaved(state, event);
    case "checkpoint.failed":
      return applySaveFailed(state, event);
  }
}

function applyStop(state: ControllerState, reason: string): Change<ControllerState> {
  if (state.ending) return { state, effects: [] };
  return { state: { ...state, ending: { outcome: "stopped", reason, announced: false } }, effects: [] };
}
