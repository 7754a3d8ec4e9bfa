/**
 * Settings that an operator changes while the job exists. A change belongs to the step with which it begins and to all later ones: a job that goes back to
 * a checkpoint does each step again with what that step had.
 */
import {
  type ChangedSettings,
  changesMax,
  type Settings,
  settingKeys,
  settingsAt,
  settingsText,
} from "@muster/protocol";
import { announce, type ReportOf } from "./events.ts";
import type { Taken } from "./fleet/taken.ts";
import type { ControllerState } from "./state.ts";

/** Oldest weights that a step may train on, in versions. Pure. */
export function stalenessOf({ plan, changes }: ControllerState, step: number): number {
  return changes ? (settingsAt(changes, step).stalenessMax ?? plan.stalenessMax) : plan.stalenessMax;
}

/** Most steps that may be sampled ahead of the present one, whichever they are. Pure. */
export function stepsAheadMax({ plan, changes = [] }: ControllerState): number {
  return Math.max(plan.stalenessMax, ...changes.map(({ settings }) => settings.stalenessMax ?? 0));
}

/** Settings of the learning rate that a step has and the job's configuration has not; `null` when there are none. Pure. */
export function rateOf({ changes }: ControllerState, step: number): Omit<Settings, "stalenessMax"> | null {
  const { stalenessMax: _, ...rate } = settingsAt(changes, step);
  return Object.keys(rate).length > 0 ? rate : null;
}

/** Takes a change into the table, or says why it cannot be. Pure. */
export function takeChange(state: ControllerState, body: ReportOf<"job.change">["body"]): Taken {
  const { plan, changes = [] } = state;
  const earliest = state.step.step + (state.step.state === "running" ? 1 : 0);
  const { settings, fromStep = earliest } = body;
  const flaw = flawOf(state, { settings, fromStep, earliest });
  if (flaw !== null) return { state, refusal: flaw };
  const had: Settings = { ...plan.settings, stalenessMax: plan.stalenessMax, ...settingsAt(changes, fromStep) };
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

interface Asked {
  readonly settings: Settings;
  readonly fromStep: number;
  readonly earliest: number;
}

function flawOf(
  { plan, ending, changes = [] }: ControllerState,
  { settings, fromStep, earliest }: Asked,
): string | null {
  if (ending) return `the job is ending: ${ending.reason}`;
  if (Object.keys(settings).length === 0)
    return `settings names nothing; there are: ${Object.values(settingKeys).join(", ")}`;
  if (fromStep < earliest)
    return `fromStep = ${fromStep} has begun or is over; the first step that can have other settings is ${earliest}`;
  if (fromStep > plan.steps) return `fromStep = ${fromStep} is after the last step, job.steps = ${plan.steps}`;
  if (changes.length >= changesMax)
    return `${changesMax} changes are the most that a job remembers; go on in a new run with weights.source = "checkpoint:PATH"`;
  const { stalenessMax = plan.stalenessMax } = settings;
  if (plan.stalenessMax === 0 && stalenessMax > 0)
    return `job.staleness_max = ${stalenessMax}: the job has mode sync, which is staleness 0; begin a run with job.mode = "async" and weights.source = "checkpoint:PATH"`;
  if (plan.stalenessMax > 0 && stalenessMax === 0)
    return `job.staleness_max = 0: the job has mode async, which is 1 or more; use 1`;
  return null;
}
