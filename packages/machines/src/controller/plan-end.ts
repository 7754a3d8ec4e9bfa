/** The end of the job: every step committed, evaluated and durable, then everybody let go. */
import { quorumText } from "./checkpoints/quorum.ts";
import { announce, type Change, type ControllerEffect } from "./events.ts";
import { finishStops } from "./fleet/plan-commands.ts";
import { ledgerOf } from "./groups/ledger.ts";
import { stopMembers } from "./orders.ts";
import { stepsOf } from "./sizes.ts";
import { type ControllerState, endingWith, holdsCurrent, type Member, membersOf } from "./state.ts";

/** Ends the job when its steps are committed, evaluated and durable, then releases everybody and stops. Pure. */
export function planEnd(state: ControllerState): Change<ControllerState> | null {
  const { ending, step } = state;
  if (!ending) {
    if (step.step <= stepsOf(state) || state.evaluation || !isEvaluated(state) || isResultOpen(state)) return null;
    const reason = isUnsaved(state) ? `all steps are committed, but ${notDurable(state)}` : "all steps are committed";
    return { state: endingWith(state, "done", reason), effects: [] };
  }
  if (step.state === "running") return null;
  if (!ending.announced) return isCheckpointOpen(state) ? null : announceEnd(state);
  const members = Object.values(state.members);
  const isLate = state.nowMs >= state.endDueAtMs;
  const nodes = isLate || members.every(({ role }) => role === "node") ? nodesToStop(state) : [];
  const released = stopMembers(state, nodes, ending.reason);
  if ((members.length > 0 && !isLate) || state.stopped) return nodes.length > 0 ? released : null;
  return {
    state: { ...released.state, stopped: true },
    effects: [...released.effects, { type: "controller.stop", outcome: ending.outcome, reason: ending.reason }],
  };
}

/** Nodes go last: until then they look after the processes of their replicas. */
function nodesToStop(state: ControllerState): readonly Member[] {
  return membersOf(state, "node").filter(({ order }) => order?.kind !== "replica.stop");
}

function isEvaluated(state: ControllerState): boolean {
  const { plan, weights, evaluatedVersion } = state;
  return plan.evalPrompts === 0 || (weights !== null && evaluatedVersion >= weights.version);
}

function isCheckpointOpen(state: ControllerState): boolean {
  const { checkpoints, plan } = state;
  const isWanted = checkpoints.wantedStep !== null && checkpoints.wantedStep > (checkpoints.saved?.step ?? 0);
  return isWanted && plan.checkpointReplicas > 0 && state.nowMs < checkpoints.dueAtMs;
}

/** A checkpoint of the last weights was wanted and is not there. */
function isUnsaved(state: ControllerState): boolean {
  const { checkpoints, plan, step } = state;
  const isWanted = step.step > stepsOf(state) || checkpoints.wantedStep !== null;
  return plan.checkpointReplicas > 0 && isWanted && (checkpoints.saved?.step ?? 0) < step.step - 1;
}

function notDurable(state: ControllerState): string {
  const { checkpoints, step, plan } = state;
  const { saved } = checkpoints;
  const lacks = checkpoints.isShort ? `; ${quorumText(state, step.step - 1)}` : "";
  const newest = saved ? `the newest checkpoint is of step ${saved.step}` : "there is no checkpoint at all";
  return `the weights of step ${step.step - 1} could not be made durable within ${plan.timing.checkpointMs} ms: ${newest}${lacks}`;
}

/** A job that ends without the checkpoint that it wanted does not end without a word on it. */
function unsavedAlarm(state: ControllerState): readonly ControllerEffect[] {
  return state.weights && isUnsaved(state)
    ? [announce("alarm.raised", { alarm: "checkpoint", detail: notDurable(state) })]
    : [];
}

/** The last weights are to be durable, or given up in time, before anybody goes: while they are not, they can still be made again. */
function isResultOpen(state: ControllerState): boolean {
  if (!state.weights) return true;
  const isHeld = membersOf(state, "policy").some((member) => holdsCurrent(state, member));
  const isSaved = (state.checkpoints.saved?.step ?? 0) >= stepsOf(state);
  return isCheckpointOpen(state) || (state.plan.checkpointReplicas > 0 && !isSaved && !isHeld);
}

function announceEnd(state: ControllerState): Change<ControllerState> {
  const { ending, plan } = state;
  if (!ending) return { state, effects: [] };
  const asked = finishStops(state, `the job has ended: ${ending.reason}`);
  const replicas = Object.values(state.members).filter(({ role }) => role !== "node");
  const stopped = stopMembers(asked.state, replicas, ending.reason);
  return {
    state: { ...stopped.state, ending: { ...ending, announced: true }, endDueAtMs: state.nowMs + plan.timing.drainMs },
    // Whoever follows the job hears nothing after its end: what is said of it stands before that.
    effects: [...unsavedAlarm(state), ...asked.effects, ...endFact(state), ...stopped.effects],
  };
}

/** The public end of the job. */
function endFact(state: ControllerState): readonly ControllerEffect[] {
  const { ending, weights, step, samplerEngines } = state;
  if (!ending) return [];
  const { outcome, reason } = ending;
  const body = {
    outcome,
    reason,
    step: step.step - 1,
    lineage: weights?.lineage ?? 0,
    version: weights?.version ?? 0,
    sections: [...(weights?.sections ?? [])],
    ledger: ledgerOf(state),
    ...(samplerEngines ? { samplers: [...samplerEngines] } : {}),
  };
  return [announce("job.ended", body)];
}
