/** How large the job and its steps are, as operators changed it: a function of the step, so that a job that goes back does each step with its own size. */
import { type BatchSpan, groupsAt, positionOf, type StepSize, spansOf, stepsAfter } from "@muster/protocol";
import type { ControllerState } from "./state.ts";

type Sized = Pick<ControllerState, "plan" | "changes">;

/** Groups of a step, however often it is run. Pure. */
export function groupsIn(state: Sized, step: number): number {
  return state.changes ? groupsAt(spansIn(state), step) : state.plan.groupsPerStep;
}

/** The number of the last step of the job. Pure. */
export function stepsOf({ plan, changes }: Sized): number {
  return changes ? stepsAfter(plan.steps, changes) : plan.steps;
}

/** Which prompt of the job a group gets, where that does not follow from the job's configuration. Pure. */
export function positionIn(state: Sized, step: number, index: number): { readonly position?: number } {
  if (!state.changes) return {};
  const spans = spansIn(state);
  const isAsBegun = spans.every(({ groupsPerStep }) => groupsPerStep === state.plan.groupsPerStep);
  return isAsBegun ? {} : { position: positionOf(spans, { step, index }) };
}

/** The sizes of the steps up to one, where they are not all of the size that the job began with. Pure. */
export function sizesUpTo(state: Sized, step: number): { readonly sizes?: StepSize[] } {
  const sizes = spansIn(state)
    .filter(
      ({ fromStep, groupsPerStep }) => fromStep <= step && (fromStep > 1 || groupsPerStep !== state.plan.groupsPerStep),
    )
    .map(({ fromStep, groupsPerStep }) => ({ fromStep, groupsPerStep }));
  return sizes.length > 0 ? { sizes } : {};
}

/** The last step that is committed, runs, or has groups: its size stands. Pure. */
export function lastOpened({ step, groups }: Pick<ControllerState, "step" | "groups">): number {
  return Math.max(step.step - 1, ...Object.keys(groups).map(Number));
}

function spansIn({ plan, changes }: Sized): readonly BatchSpan[] {
  return spansOf(plan.groupsPerStep, changes);
}
