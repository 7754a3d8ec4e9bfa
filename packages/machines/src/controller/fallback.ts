/** Checkpoints beside the newest one: what the job can go back to when that one is damaged, and what it must know to do so. */
import type { Body, GroupReceipt } from "@muster/protocol";
import { countsOf } from "./ledger.ts";
import type { ControllerState, CoveredStep, Fallback, KeptCheckpoint, StepGroups } from "./state.ts";

/** Folders in one order. */
const pinsMax = 64;

/**
 * What is left to go back to once a newer checkpoint is durable; `covered` are the steps that it covers. There is always one: retention leaves the
 * one before the newest even when it keeps but one, because that one was pinned. Pure.
 */
export function fallbackAfter(
  { checkpoints, fallback, plan }: ControllerState,
  newest: KeptCheckpoint,
  covered: readonly (readonly [string, readonly GroupReceipt[]])[],
): Fallback {
  const known = checkpoints.saved ? [checkpoints.saved, ...fallback.older] : [];
  const older = firstVersions([newest, ...known], Math.max(2, plan.checkpointKeep)).slice(1);
  const oldest = older.at(-1)?.step ?? newest.step;
  const steps = [
    ...Object.entries(fallback.covered),
    ...covered.map(([key, receipts]) => [key, coveredStep(receipts, plan.groupsPerStep)] as const),
  ];
  return { ...fallback, older, covered: Object.fromEntries(steps.filter(([key]) => Number(key) > oldest)) };
}

/** Another checkpoint actor has written the newest checkpoint, too: that is one more to go back to. Pure. */
export function noteCopy(state: ControllerState, copy: KeptCheckpoint): ControllerState {
  const { checkpoints, fallback } = state;
  const { saved } = checkpoints;
  const isNewest = saved?.step === copy.step && saved.version === copy.version;
  const isKnown = [saved, ...fallback.older].some((known) => known?.path === copy.path && known.host === copy.host);
  if (!isNewest || isKnown) return state;
  return { ...state, fallback: { ...fallback, older: [copy, ...fallback.older] } };
}

/** What retention must leave besides what it keeps by itself: what the job would go back to once one more is written. Pure. */
export function pinsOf({
  checkpoints,
  fallback,
  plan,
}: ControllerState): Pick<Body<"checkpoint.save">, "pinned" | "fallbacks"> {
  const { saved } = checkpoints;
  if (!saved) return {};
  const fallbacks = firstVersions([saved, ...fallback.older], Math.max(1, plan.checkpointKeep - 1))
    .slice(1, pinsMax)
    .map(({ path }) => path);
  return { pinned: saved.path, ...(fallbacks.length > 0 ? { fallbacks } : {}) };
}

/** The groups of a step whose trajectories are gone: what has a result is sampled again, what was given up stays so. Pure. */
export function purgedGroups({ plan }: ControllerState, { givenUp }: CoveredStep): StepGroups {
  const indices = Array.from({ length: plan.groupsPerStep }, (_, index) => index);
  const queue = indices.filter((index) => !givenUp.includes(index)).map((index) => ({ index, attempt: 0 }));
  return { queue, receipts: {}, quarantined: givenUp };
}

function coveredStep(receipts: readonly GroupReceipt[], groupsPerStep: number): CoveredStep {
  const finished = new Set(receipts.map(({ index }) => index));
  const givenUp = Array.from({ length: groupsPerStep }, (_, index) => index).filter((index) => !finished.has(index));
  return { ...countsOf(receipts), givenUp };
}

/** Checkpoints of the first so many versions, with all copies. */
function firstVersions(checkpoints: readonly KeptCheckpoint[], count: number): readonly KeptCheckpoint[] {
  const steps = [...new Set(checkpoints.map(({ step }) => step))].slice(0, Math.max(1, count));
  return checkpoints.filter(({ step }) => steps.includes(step));
}
