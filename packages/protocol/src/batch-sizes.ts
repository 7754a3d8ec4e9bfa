/**
 * How many groups each step has, and which prompt each group gets. Prompts are numbered through the whole job from 0, however large its steps are, so a
 * change of size leaves no prompt out and repeats none.
 */
import { type ChangedSettings, settingsAt } from "./settings.ts";

/** Steps of one size, up to the first step of the next span. */
export interface BatchSpan {
  /** Its first step, from 1. */
  readonly fromStep: number;
  /** Prompts of all steps before it. */
  readonly firstPosition: number;
  readonly groupsPerStep: number;
}

/** A group by its step, from 1, and its place in it, from 0. */
export interface GroupPlace {
  readonly step: number;
  readonly index: number;
}

interface Known {
  readonly groupsPerStep: number;
  readonly spans: readonly BatchSpan[];
}

/** Spans of each list of changes that somebody asked about: a list never changes. */
const known = new WeakMap<readonly ChangedSettings[], Known>();

const unchanged: readonly ChangedSettings[] = [];

/** The sizes of a job that began with `groupsPerStep`, in order of step; the first span begins with step 1. Pure. */
export function spansOf(groupsPerStep: number, changes: readonly ChangedSettings[] = unchanged): readonly BatchSpan[] {
  const earlier = known.get(changes);
  if (earlier?.groupsPerStep === groupsPerStep) return earlier.spans;
  const steps = changes.filter(({ settings }) => settings.groupsPerStep !== undefined).map(({ fromStep }) => fromStep);
  const spans: BatchSpan[] = [];
  for (const fromStep of [...new Set([1, ...steps])].sort((a, b) => a - b)) {
    const last = spans.at(-1);
    const size = settingsAt(changes, fromStep).groupsPerStep ?? groupsPerStep;
    if (last?.groupsPerStep === size) continue;
    const firstPosition = last ? last.firstPosition + (fromStep - last.fromStep) * last.groupsPerStep : 0;
    spans.push({ fromStep, firstPosition, groupsPerStep: size });
  }
  known.set(changes, { groupsPerStep, spans });
  return spans;
}

const none: BatchSpan = { fromStep: 1, firstPosition: 0, groupsPerStep: 1 };

/** Groups of a step. Pure. */
export function groupsAt(spans: readonly BatchSpan[], step: number): number {
  return spanOf(spans, (span) => span.fromStep <= step).groupsPerStep;
}

/** Prompts before a group's since the beginning of the job, from 0. Pure. */
export function positionOf(spans: readonly BatchSpan[], { step, index }: GroupPlace): number {
  const { fromStep, firstPosition, groupsPerStep } = spanOf(spans, (span) => span.fromStep <= step);
  return firstPosition + (step - fromStep) * groupsPerStep + index;
}

/** The group that gets the prompt at a position: the inverse of {@link positionOf}. Pure. */
export function placeAt(spans: readonly BatchSpan[], position: number): GroupPlace {
  const { fromStep, firstPosition, groupsPerStep } = spanOf(spans, (span) => span.firstPosition <= position);
  const offset = position - firstPosition;
  return { step: fromStep + Math.floor(offset / groupsPerStep), index: offset % groupsPerStep };
}

function spanOf(spans: readonly BatchSpan[], isBegun: (span: BatchSpan) => boolean): BatchSpan {
  return spans.findLast(isBegun) ?? spans[0] ?? none;
}
