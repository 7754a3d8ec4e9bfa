/**
 * Settings that an operator changes while the job exists. A change belongs to the step with which it begins and to all later ones: a job that goes back to
 * a checkpoint does each step again with what that step had.
 */
import { type ChangedSettings, type Settings, settingsAt, settingsText } from "@muster/protocol";
import { announce, type ReportOf } from "./events.ts";
import type { CommandOutcome } from "./fleet/command-outcome.ts";
import type { ControllerPlan } from "./plan.ts";
import { flawOfChange } from "./settings-flaw.ts";
import { lastOpened } from "./sizes.ts";
import { type ControllerState, initialControllerState } from "./state.ts";

/** Oldest weights that a step may train on, in versions. Pure. */
export function stalenessOf({ plan, changes }: ControllerState, step: number): number {
  return changes ? (settingsAt(changes, step).stalenessMax ?? plan.stalenessMax) : plan.stalenessMax;
}

/** Most steps that may be sampled ahead of the present one, whichever they are. Pure. */
export function stepsAheadMax({ plan, changes = [] }: ControllerState): number {
  return Math.max(plan.stalenessMax, ...changes.map(({ settings }) => settings.stalenessMax ?? 0));
}

/** Settings of trainers that a step has and the job's configuration has not; `null` when there are none. Pure. */
export function rateOf(
  { changes }: ControllerState,
  step: number,
): Omit<Settings, "stalenessMax" | "groupsPerStep"> | null {
  const { stalenessMax: _, groupsPerStep: __, ...rate } = settingsAt(changes, step);
  return Object.keys(rate).length > 0 ? rate : null;
}

/** Takes a change into the table, or says why it cannot be. Pure. */
export function takeChange(state: ControllerState, body: ReportOf<"job.change">["body"]): CommandOutcome {
  const { plan, changes = [] } = state;
  const earliest = earliestOf(state, body.settings);
  const { settings, fromStep = earliest } = body;
  const flaw = flawOfChange(state, { settings, fromStep, earliest });
  if (flaw !== null) return { state, refusal: flaw };
  const had: Settings = { ...begunWith(plan), ...settingsAt(changes, fromStep) };
  const names = (Object.keys(settings) as (keyof Settings)[]).filter((name) => settings[name] !== undefined);
  const isAlready = names.every((name) => had[name] === settings[name]);
  const text = `${settingsText(settings)} from step ${fromStep} on${laterText(changes, { settings, fromStep })}`;
  const detail = isAlready ? `it is so already: ${text}` : text;
  const answer = { outcome: "done", detail } as const;
  if (isAlready) return { state, detail, effects: [], answer };
  const before = Object.fromEntries(names.flatMap((name) => (had[name] === undefined ? [] : [[name, had[name]]])));
  const next = { ...state, changes: [...changes, { fromStep, settings }] };
  return { state: next, detail, effects: [announce("job.changed", { fromStep, settings, before })], answer };
}

/**
 * Why a job would refuse a change once the steps up to `step` are committed, as far as that can be told without its tables; `null` when it may take it. Pure.
 */
export function foreseenFlaw(
  plan: ControllerPlan,
  { step, changes }: { readonly step: number; readonly changes: readonly ChangedSettings[] },
  { settings, fromStep }: Pick<ReportOf<"job.change">["body"], "settings" | "fromStep">,
): string | null {
  const initial = initialControllerState(plan);
  const state = { ...initial, changes, step: { ...initial.step, step: step + 1 } };
  const earliest = earliestOf(state, settings);
  return flawOfChange(state, { settings, fromStep: fromStep ?? earliest, earliest });
}

/** The first step that can have these settings: it has not begun, and for another number of groups none of it is sampled. Pure. */
function earliestOf(state: ControllerState, { groupsPerStep }: Settings): number {
  const next = state.step.step + (state.step.state === "running" ? 1 : 0);
  return groupsPerStep === undefined ? next : Math.max(next, lastOpened(state) + 1);
}

function begunWith({ settings, steps, stalenessMax, groupsPerStep, batchBounds }: ControllerState["plan"]): Settings {
  return {
    ...{ ...settings, steps, stalenessMax, groupsPerStep },
    ...(batchBounds ? { minibatches: batchBounds.minibatches } : {}),
  };
}

/** Where the first of these settings ends, because another value was ordered for a later step; empty when none does. Pure. */
function laterText(changes: readonly ChangedSettings[], { settings, fromStep }: ChangedSettings): string {
  const later = changes.map((change) => change.fromStep).filter((step) => step > fromStep);
  for (const step of later.sort((a, b) => a - b)) {
    const others = Object.entries(settingsAt([...changes, { settings, fromStep }], step)).filter(([name, value]) => {
      const said = settings[name as keyof Settings];
      return said !== undefined && value !== said;
    });
    if (others.length > 0)
      return `; from step ${step} on it is as ordered before: ${settingsText(Object.fromEntries(others))}`;
  }
  return "";
}
