/** Why a change of settings is refused. Every refusal names the field, the value and the way out. */
import { formatSize } from "@muster/base";
import { type ChangedSettings, changesMax, type Settings, settingKeys, settingsAt } from "@muster/protocol";
import { lastOpened, stepsOf } from "./sizes.ts";
import type { ControllerState } from "./state.ts";

/** A change that is asked for. */
export interface AskedChange extends ChangedSettings {
  /** The first step that can have it. */
  readonly earliest: number;
}

/** What is wrong with a change; `null` when it can be made. Pure. */
export function flawOfChange(state: ControllerState, asked: AskedChange): string | null {
  const { ending, changes = [] } = state;
  const { settings } = asked;
  if (ending) return `the job is ending: ${ending.reason}`;
  if (Object.keys(settings).length === 0)
    return `settings names nothing; there are: ${Object.values(settingKeys).join(", ")}`;
  if (changes.length >= changesMax)
    return `${changesMax} changes are the most that a job remembers; go on in a new run with weights.source = "checkpoint:PATH"`;
  return flawOfSteps(state, asked) ?? flawOfStaleness(state, settings) ?? flawOfBatch(state, asked);
}

function flawOfSteps(state: ControllerState, { settings, fromStep, earliest }: AskedChange): string | null {
  const { groupsPerStep, steps = stepsOf(state) } = settings;
  const { step } = state.step;
  const least = Math.max(lastOpened(state), state.step.state === "running" ? step : 1);
  if (settings.steps !== undefined && steps < least)
    return `job.steps = ${steps}: step ${least} is committed, runs or is sampled already; use ${least} or more`;
  if (fromStep < earliest) {
    const why = groupsPerStep === undefined ? "has begun or is over" : "has begun, is over, or is sampled already";
    return `fromStep = ${fromStep} ${why}; the first step that can have other settings is ${earliest}`;
  }
  // Who only shortens a job to the step that runs changes none after it.
  const isEnd = Object.keys(settings).length === 1 && settings.steps !== undefined && fromStep === earliest;
  if (fromStep > steps && !isEnd) return `fromStep = ${fromStep} is after the last step, job.steps = ${steps}`;
  return null;
}

function flawOfStaleness({ plan }: ControllerState, { stalenessMax = plan.stalenessMax }: Settings): string | null {
  if (plan.stalenessMax === 0 && stalenessMax > 0)
    return `job.staleness_max = ${stalenessMax}: the job has mode sync, which is staleness 0; begin a run with job.mode = "async" and weights.source = "checkpoint:PATH"`;
  if (plan.stalenessMax > 0 && stalenessMax === 0)
    return `job.staleness_max = 0: the job has mode async, which is 1 or more; use 1`;
  return null;
}

/** Each step from the change on must have a batch that fits, with what was ordered for later steps, too. */
function flawOfBatch({ plan, changes = [] }: ControllerState, { settings, fromStep }: AskedChange): string | null {
  const { batchBounds: bounds } = plan;
  if (!bounds) {
    const name = (["groupsPerStep", "minibatches"] as const).find((key) => settings[key] !== undefined);
    return name === undefined
      ? null
      : `${settingKeys[name]} = ${settings[name]}: the job was begun by a program that did not say what a batch must fit; begin a run with weights.source = "checkpoint:PATH"`;
  }
  const next = [...changes, { settings, fromStep }];
  const ahead = Math.max(plan.stalenessMax, ...next.map(({ settings: each }) => each.stalenessMax ?? 0));
  const begins = next.map((change) => change.fromStep).filter((step) => step >= fromStep);
  for (const step of begins.toSorted((a, b) => a - b)) {
    const { groupsPerStep = plan.groupsPerStep, minibatches = bounds.minibatches } = settingsAt(next, step);
    const from = `from step ${step} on`;
    if (minibatches > bounds.minibatchesMax)
      return `batch.minibatches = ${minibatches} ${from}: at most ${bounds.minibatchesMax} with the algorithm of this job, which has no importance ratio; use ${bounds.minibatchesMax}`;
    if (minibatches > groupsPerStep)
      return `batch.minibatches = ${minibatches} with batch.groups_per_step = ${groupsPerStep} ${from}: no minibatch may be empty; change both, with batch.minibatches at most ${groupsPerStep}`;
    if (bounds.trainGroups > groupsPerStep)
      return `batch.groups_per_step = ${groupsPerStep} ${from}: training.train_groups = ${bounds.trainGroups} are more than are sampled; use ${bounds.trainGroups} or more`;
    const most = Math.floor(bounds.streamBytes / ((ahead + 1) * bounds.groupBytes));
    const isRoomAsked = settings.groupsPerStep !== undefined || settings.stalenessMax !== undefined;
    if (isRoomAsked && groupsPerStep > most)
      return `batch.groups_per_step = ${groupsPerStep} ${from}, with job.staleness_max = ${ahead}: the groups stream holds ${formatSize(bounds.streamBytes)} (limits.groups_bytes), which is ${most} groups a step; use ${most} or fewer`;
  }
  return null;
}
