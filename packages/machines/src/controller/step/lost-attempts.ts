/**
 * Attempts at a step that lost a trainer (semantics 6.2). One is bad luck and costs nothing. When one step loses its trainers again and again,
 * and nothing is committed in between, its batch ends them: the group that does so is searched for (`search-batch.ts`), and when that does not
 * help the job ends and says so, before its replicas are used up. The counts outlive a rollback, because the death of the only trainer is one.
 */
import type { Change } from "../events.ts";
import { withTime } from "../groups/outside-losses.ts";
import { type ControllerState, countOf, endingWith, type LostAttempts, type Member } from "../state.ts";

/** Lost attempts that weigh as much as one that failed: trainers die of other causes, too, and one flaky host must not end a job. */
const lossesPerFailure = 4;

/** Ends of trainers that are remembered. */
const causesMax = 5;

const causeMax = 200;

/** Counts an attempt at the present step that lost a trainer; a trial of a search is counted by what it shows. Pure. */
export function noteLoss(state: ControllerState, reason: string): ControllerState {
  const losses = lossesOf(state);
  const causes = losses.causes.length > 0 ? losses.causes : [reason.slice(0, causeMax)];
  return withLosses(state, { ...losses, count: losses.count + (losses.search ? 0 : 1), causes, isOpen: true });
}

/** Remembers how a trainer ended over the step; one that waits for its groups has not begun on any. Pure. */
export function noteLostTrainer(
  state: ControllerState,
  { id, role }: Member,
  { evidence, isOutside }: { readonly evidence: string; readonly isOutside: boolean },
): ControllerState {
  const { mesh, step, nowMs } = state;
  const isIdle = step.state === "sampling" && mesh.state === "ready";
  if (role !== "policy" || isIdle || !mesh.members.includes(id)) return state;
  const losses = lossesOf(state);
  const { outside, search } = losses;
  const causes = [...losses.causes, `${id}: ${evidence}`.slice(0, causeMax)].slice(-causesMax);
  return withLosses(state, {
    ...losses,
    ...{ causes, ended: (losses.ended ?? 0) + 1, last: id },
    ...(isOutside ? { outside: withTime(outside ?? [], nowMs) } : {}),
    ...(search && !isOutside ? { search: { ...search, isCrash: true } } : {}),
  });
}

/** Forgets the losses of steps that are committed or skipped. Pure. */
export function forgetLosses(state: ControllerState, step: number): ControllerState {
  if (!state.losses) return state;
  const kept = Object.entries(state.losses).filter(([key]) => Number(key) > step);
  return { ...state, losses: Object.fromEntries(kept) };
}

/**
 * Ends the job when a step has lost its trainers too often in a row, or when nodes have given all trainers up after it lost some: nobody would
 * ever come. Pure.
 */
export function planLosses(state: ControllerState): Change<ControllerState> | null {
  const { plan, ending, step } = state;
  const { count, causes } = lossesOf(state);
  if (ending || count === 0) return null;
  const isOver = count >= lossesPerFailure * plan.limits.stepAttemptsMax;
  if (!isOver && !areAllRetired(state)) return null;
  const why = isOver ? "" : ", and all trainers are given up";
  const reason = `step ${step.step} lost its trainers in ${count} attempts in a row${why}; the last ends: ${causes.join("; ")}`;
  return { state: endingWith(state, "failed", reason), effects: [] };
}

function areAllRetired(state: ControllerState): boolean {
  const trainers = Object.values(state.fleet.replicas).filter(({ role }) => role === "policy");
  const isOver = trainers.length > 0 && trainers.every(({ health }) => health === "RETIRED");
  return isOver && countOf(state, "policy") === 0;
}

/** What is known of lost attempts at the present step. Pure. */
export function lossesOf(state: ControllerState): LostAttempts {
  return state.losses?.[state.step.step] ?? { count: 0, causes: [] };
}

/** The state with other losses of the present step. Pure. */
export function withLosses(state: ControllerState, losses: LostAttempts): ControllerState {
  return { ...state, losses: { ...state.losses, [state.step.step]: losses } };
}
